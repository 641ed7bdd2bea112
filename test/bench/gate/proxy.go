package gate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/bench"
)

// proxied are the images behind the proxy: with a signature alone, because no
// version names the source of an image that is pulled by its digest.
const proxied = "signed"

// pull is what is pulled at a time.
type pull struct {
	name    string
	path    string
	ranged  string // the header Range
	bytes   int    // that come
	checked bool   // the client hashes them
	times   int    // how often it is pulled in one run
}

// Proxy lets a registry, and what can be in front of it, take turns at answering
// pulls: waybill gate proxy, the least reverse proxy that Go has, and nginx where
// it is installed. It says on w the rows of each pull, by its name.
func Proxy(ctx context.Context, w io.Writer, req Request) (err error) {
	dir, err := os.MkdirTemp(req.Dir, "proxy-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &scene{Request: req, dir: dir}
	s.Images = proxied
	defer func() { err = errors.Join(err, s.close()) }()
	behind, err := startRegistry(ctx, req.Registry, dir)
	if err != nil {
		return err
	}
	fronts := []*front{behind}
	defer func() {
		for _, f := range fronts {
			f.end()
		}
	}()
	s.host = behind.address
	all, err := s.fill(ctx)
	if err != nil {
		return err
	}
	gate, err := s.startProxy(ctx)
	if err != nil {
		return err
	}
	fronts = append(fronts, gate)
	starts := []func(context.Context, string, string) (*front, error){startPass}
	if _, err := exec.LookPath("nginx"); err == nil {
		starts = append(starts, startNginx)
	}
	for _, start := range starts {
		f, err := start(ctx, s.host, dir)
		if err != nil {
			return err
		}
		fronts = append(fronts, f)
	}
	rows := map[string][]bench.Row{}
	for _, p := range all {
		var commands []bench.Command
		for _, f := range fronts {
			commands = append(commands, bench.Command{Name: f.name, Units: p.times, Run: func(ctx context.Context) (bench.Sample, error) {
				return s.pulled(ctx, p, f, fronts)
			}})
		}
		if rows[p.name], err = bench.Alternate(ctx, commands, req.N, func(string) {}); err != nil {
			return err
		}
	}
	return json.NewEncoder(w).Encode(rows)
}

// fill pushes a layer, and an image with its signature, and returns what is to be
// pulled.
func (s *scene) fill(ctx context.Context) ([]pull, error) {
	set, err := setOf(s.Images)
	if err != nil {
		return nil, err
	}
	to, err := registry.OpenRemote(s.host, http.DefaultTransport)
	if err != nil {
		return nil, err
	}
	repo := staging + "/proxied"
	layer := make([]byte, s.Bytes)
	_, _ = rand.NewChaCha8([32]byte{}).Read(layer) // it never fails
	blob := registry.Descriptor{MediaType: "application/vnd.oci.image.layer.v1.tar", Digest: digest.Of(digest.SHA256, layer), Size: int64(len(layer))}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer)), nil }
	if err := to.PushBlob(ctx, repo, blob, open); err != nil {
		return nil, err
	}
	image, err := push(ctx, to, repo, fmt.Sprint(set.name, " ", 0)) // the first that was minted
	if err != nil {
		return nil, err
	}
	for k, kind := range set.says {
		raw, err := os.ReadFile(bundlePath(s.Seed, set, 0, k))
		if err != nil {
			return nil, err
		}
		about, manifest, blobs := registry.BundleManifest(image, raw, kind)
		if err := pushAll(ctx, to, repo, part{about, manifest, blobs}); err != nil {
			return nil, err
		}
	}
	if err := s.openIssuer(); err != nil {
		return nil, err
	}
	at := "/v2/" + repo + "/blobs/" + blob.Digest.String()
	half := fmt.Sprintf("bytes=%d-%d", s.Bytes/4, s.Bytes/4+s.Bytes/2-1)
	return []pull{
		{name: "layer", path: at, bytes: s.Bytes, checked: true, times: 1},
		{name: "range", path: at, bytes: s.Bytes / 2, checked: true, times: 1, ranged: half},
		{name: "ignored", path: at, bytes: s.Bytes, times: 1},
		{name: "manifest", path: "/v2/" + repo + "/manifests/" + image.Digest.String(), bytes: int(image.Size), times: 100},
	}, s.write(set)
}

// pulled pulls once, or some times, and counts the CPU of the client, of the
// registry and of what is in front of it.
func (s *scene) pulled(ctx context.Context, p pull, from *front, all []*front) (bench.Sample, error) {
	before, err := cpuOf(from, all[0])
	if err != nil {
		return bench.Sample{}, err
	}
	began := time.Now()
	for range p.times {
		if err := s.pullOnce(ctx, p, from); err != nil {
			return bench.Sample{}, fmt.Errorf("pulling %s from %s: %w", p.name, from.name, err)
		}
	}
	took := time.Since(began)
	after, err := cpuOf(from, all[0])
	return bench.Sample{Wall: took, CPU: after - before}, err
}

func (s *scene) pullOnce(ctx context.Context, p pull, from *front) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+from.address+p.path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.token) // a registry without users ignores it
	req.Header.Set("Accept", registry.MediaTypeManifest)
	want := http.StatusOK
	if p.ranged != "" {
		req.Header.Set("Range", p.ranged)
		want = http.StatusPartialContent
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var to io.Writer = struct{ io.Writer }{io.Discard} // not by its ReadFrom, which reads little at a time
	if p.checked {
		to = sha256.New()
	}
	n, err := io.Copy(to, resp.Body)
	if err == nil && (resp.StatusCode != want || int(n) != p.bytes) {
		err = fmt.Errorf("answered %d with %d bytes", resp.StatusCode, n)
	}
	return err
}

// cpuOf is the CPU that this process and these took so far.
func cpuOf(fronts ...*front) (sum time.Duration, err error) {
	pids := map[int]bool{os.Getpid(): true}
	for _, f := range fronts {
		pids[f.pid()] = true
	}
	for pid := range pids {
		one, err := spentBy(pid)
		if err != nil {
			return 0, err
		}
		sum += one
	}
	return sum, nil
}

func (s *scene) startProxy(ctx context.Context) (*front, error) {
	var err error
	if s.client, err = s.writeTLS(); err != nil {
		return nil, err
	}
	s.service, err = startService(ctx, filepath.Join(s.Bin, "waybill"), s.dir, "proxy", false)
	if err != nil {
		return nil, err
	}
	return &front{name: "waybill gate proxy", address: s.service.callers, cmd: s.service.cmd}, nil
}
