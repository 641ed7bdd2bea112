package stories

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/produce/image"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/test/scene"
)

const workers = 8

// fleet promotes many small images, each signed by the release identity, to two
// regions, in shards.
type fleet struct {
	*scene.Scene
	t    *testing.T
	plan promotionplan.Plan
	gate *gatekeeper // before one of the regions
}

// gatekeeper passes everything on to the registry, and holds the first request
// up that it is told to.
type gatekeeper struct {
	host string

	mu    sync.Mutex // owns the rest
	holds func(*http.Request) bool
	held  chan struct{} // closed when a request is held up
	letGo chan bool     // says whether to let it pass; it is dropped otherwise
}

// openFleet pushes and signs the images, and plans their promotion.
func openFleet(t *testing.T, images int) *fleet {
	t.Helper()
	f := &fleet{Scene: open(t), t: t}
	f.gate = newGatekeeper(t, f.Lab.Registry)
	text, err := os.ReadFile(f.Path("policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	bench{f.Scene}.policy(t, "policy.yaml", string(text), "classes: [binary, archive, file, image]", "classes: [binary, archive, file]",
		"- {stages: [staging, release], classes: [sums]", `- {stages: [staging, release], classes: [image], checks: {provenance: "off", signature: require, sbom: "off"}}
- {stages: [staging, release], classes: [sums]`)
	manifest := fmt.Sprintf("registries:\n- {name: %[1]s/staging/fleet, src: true}\n- {name: %[1]s/us}\n- {name: %[2]s/eu}\nimages:\n- name: demo\n  dmap:\n", f.Lab.Registry, f.gate.host)
	for i := range images {
		manifest += fmt.Sprintf("    %q: [v%d]\n", f.push(i).Digest.String(), i)
	}
	f.write("m.yaml", manifest)
	r := f.Run(t.Context(), "waybill", "promote", "plan", "m.yaml", "-o", "json")
	want(t, r, 0)
	f.write("plan.json", r.Stdout)
	if f.plan, err = promotionplan.Parse([]byte(r.Stdout)); err != nil {
		t.Fatal(err)
	}
	return f
}

func newGatekeeper(t *testing.T, to string) *gatekeeper {
	t.Helper()
	g := &gatekeeper{}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: to})
	}}
	pass.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	pass.ModifyResponse = func(r *http.Response) error { // what lies here is found here
		r.Header.Set("Location", strings.ReplaceAll(r.Header.Get("Location"), to, g.host))
		return nil
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.lets(t.Context(), r) {
			panic(http.ErrAbortHandler)
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	g.host = strings.TrimPrefix(srv.URL, "http://")
	return g
}

// hold has the first request that is meant held up. It returns what is closed
// when it is there, and where to say what becomes of it.
func (g *gatekeeper) hold(meant func(*http.Request) bool) (held <-chan struct{}, letGo chan<- bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds, g.held, g.letGo = meant, make(chan struct{}), make(chan bool, 1)
	return g.held, g.letGo
}

// lets reports whether a request may pass.
func (g *gatekeeper) lets(test context.Context, r *http.Request) bool {
	g.mu.Lock()
	meant := g.holds != nil && g.holds(r)
	held, letGo := g.held, g.letGo
	if meant {
		g.holds = nil
	}
	g.mu.Unlock()
	if !meant {
		return true
	}
	close(held)
	select {
	case pass := <-letGo:
		return pass
	case <-test.Done():
		return false
	}
}

func isTag(r *http.Request) bool {
	return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/v")
}

func (f *fleet) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(f.Path(name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// push pushes an image, and signs it.
func (f *fleet) push(i int) registry.Descriptor {
	f.t.Helper()
	body := fmt.Sprint("image ", i)
	built, err := image.Build(f.t.Context(), image.Spec{Base: image.Scratch(), Entrypoint: []string{"/which"}, Created: time.Unix(0, 0), Platforms: []image.Platform{
		{OS: "linux", Arch: "amd64", Files: []image.File{{Path: "/which", Mode: 0o644, Size: int64(len(body)), Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }}}},
	}})
	if err != nil {
		f.t.Fatal(err)
	}
	to, err := registry.OpenRemote(f.Lab.Registry+"/staging/fleet", http.DefaultTransport)
	if err != nil {
		f.t.Fatal(err)
	}
	index, err := built.Write(f.t.Context(), to, "demo")
	if err != nil {
		f.t.Fatal(err)
	}
	node, err := registry.Graph(f.t.Context(), to, "demo", index)
	if err != nil {
		f.t.Fatal(err)
	}
	d := node.Children[0].Descriptor // it goes without the index
	statement := fmt.Appendf(nil, `{"_type":%q,"subject":[{"name":"demo","digest":{"sha256":%q}}],"predicateType":%q,"predicate":{}}`, intoto.TypeV1, d.Digest.Hex(), intoto.CosignSignature)
	bundle, err := f.Sign(f.t.Context(), "release", statement)
	if err != nil {
		f.t.Fatal(err)
	}
	manifest, raw, blobs := registry.BundleManifest(d, bundle, intoto.CosignSignature)
	for _, b := range blobs {
		if err := to.PushBlob(f.t.Context(), "demo", b.Descriptor, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes)), nil }); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := to.PushManifest(f.t.Context(), "demo", manifest, raw); err != nil {
		f.t.Fatal(err)
	}
	return d
}

// results is where the shards write to: the bucket.
func (f *fleet) results() string {
	return strings.Replace(f.Lab.Bucket, "http://", "gs+http://", 1) + "/mirror/results/"
}

// worker is the command of one shard. Each has a directory of its own, as on a
// machine of its own.
func (f *fleet) worker(shard int, flags ...string) []string {
	return append([]string{"waybill", "promote", "apply", "plan.json", "--profile", "profile.yaml", "--state", fmt.Sprintf("worker-%d", shard),
		"--shard", fmt.Sprintf("%d/%d", shard, workers), "--results", f.results(), "--lease", "leases", "--confirm"}, flags...)
}

func (f *fleet) merge(flags ...string) scene.Result {
	f.t.Helper()
	return f.Run(f.t.Context(), append([]string{"waybill", "promote", "merge", "plan.json", "--results", f.results()}, flags...)...)
}

// diff asks the regions.
func (f *fleet) diff() scene.Result {
	f.t.Helper()
	return f.Run(f.t.Context(), "waybill", "promote", "diff", "plan.json")
}

// of are the tags of the images that fall to a shard.
func (f *fleet) of(shard int) (tags []string) {
	for _, e := range f.plan.Edges {
		if (promotionplan.Shard{Index: shard, Of: workers}).IsEmpty(promotionplan.Plan{Edges: []promotionplan.Edge{e}}) {
			continue
		}
		tags = append(tags, e.Tags...)
	}
	return tags
}

// start starts a command, whose end is told.
func (f *fleet) start(ctx context.Context, args []string) (cmd *exec.Cmd, said *bytes.Buffer, ended chan error) {
	f.t.Helper()
	cmd, said, ended = exec.CommandContext(ctx, filepath.Join(f.Bin, args[0]), args[1:]...), &bytes.Buffer{}, make(chan error, 1)
	cmd.Dir, cmd.Stdout, cmd.Stderr = f.Dir, said, said
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() { ended <- cmd.Wait() }()
	return cmd, said, ended
}

// TestPromoteShards: eight workers promote at once, one of them is killed before
// its last tag; the merge says what is missing, and accepts when that shard was
// run again.
func TestPromoteShards(t *testing.T) {
	f := openFleet(t, 48)
	if err := os.Mkdir(f.Path("leases"), 0o755); err != nil {
		t.Fatal(err)
	}
	want(t, f.merge(), 1, "MISSING", "no shard of the plan has written results")
	want(t, f.diff(), 0, "missing ", "demo:v0@", "requests: 2 for lists, 0 for single tags")
	victim := f.victim()
	last := f.of(victim)[len(f.of(victim))-1]
	held, letGo := f.gate.hold(func(r *http.Request) bool { return isTag(r) && strings.HasSuffix(r.URL.Path, "/"+last) })
	var group sync.WaitGroup
	for shard := range workers {
		if shard != victim {
			group.Go(func() {
				if r := f.Run(t.Context(), f.worker(shard)...); r.Code != 0 {
					t.Errorf("shard %d ended with %d:\n%s%s", shard, r.Code, r.Stdout, r.Stderr)
				}
			})
		}
	}
	cmd, _, ended := f.start(t.Context(), f.worker(victim))
	select {
	case <-held:
	case err := <-ended:
		t.Fatalf("it ended before its last tag: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	letGo <- false
	group.Wait()

	name := fmt.Sprintf("shard %d/%d", victim, workers)
	r := f.merge("--output", "table", "--output", "json=merged.json")
	want(t, r, 1, "MISSING", name, "no results written", "--"+name+" --confirm")
	t.Log(r.Stdout)
	v := f.merged()
	if lacks := v.Counts.Required - v.Counts.Verified; v.Counts.Required != 96 || lacks != 2*len(f.of(victim)) || v.Counts.Missing != lacks {
		t.Errorf("%+v", v.Counts)
	}
	// Its lease lasts, until somebody who knows that it is dead removes it.
	want(t, f.Run(t.Context(), f.worker(victim)...), 3, "BUSY", fmt.Sprintf("promotion-%03d-of-%03d.lease.json", victim, workers))
	if err := os.Remove(f.Path("leases", fmt.Sprintf("promotion-%03d-of-%03d.lease.json", victim, workers))); err != nil {
		t.Fatal(err)
	}
	want(t, f.Run(t.Context(), f.worker(victim)...), 0, "OK ")
	r = f.merge("--output", "table", "--output", "json=merged.json")
	want(t, r, 0, "OK ", "96 of 96 checks passed")
	t.Log(r.Stdout)
	r = f.diff()
	want(t, r, 0, "requests: 2 for lists, 96 for single tags and digests")
	t.Log(r.Stdout)
	if v := f.merged(); len(v.Groups) != 2 || v.Groups[0].Verified != 48 {
		t.Errorf("%+v", v.Groups)
	}
	for _, region := range []string{"us", "eu"} {
		at, err := registry.OpenRemote(f.Lab.Registry+"/"+region, http.DefaultTransport)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range f.plan.Edges {
			d, err := at.Resolve(t.Context(), "demo", e.Tags[0])
			if err != nil || !d.Digest.Equal(e.Digest) {
				t.Errorf("%s: %s: %v, %v", region, e.Tags[0], d.Digest, err)
			}
			if list, err := at.Referrers(t.Context(), "demo", e.Digest); err != nil || len(list) == 0 {
				t.Errorf("%s: %s has no evidence: %v", region, e.Tags[0], err)
			}
		}
	}
	f.regionAway()
}

// regionAway: a run with a region that is away is partial, and says where.
func (f *fleet) regionAway() {
	f.t.Helper()
	results := f.Path("partial")
	one := func(flags ...string) scene.Result {
		return f.Run(f.t.Context(), append([]string{"waybill", "promote", "apply", "plan.json", "--profile", "profile.yaml", "--state", "partial-state", "--results", results, "--confirm"}, flags...)...)
	}
	plan := f.Path("plan.json")
	raw, err := os.ReadFile(plan)
	if err != nil {
		f.t.Fatal(err)
	}
	// A region that nobody answers for.
	f.write("plan.json", strings.Replace(string(raw), `"`+f.gate.host+`/eu"`, `"127.0.0.1:1/eu"`, 1))
	want(f.t, one(), 3, "UNAVAILABLE", "48 of 96")
	r := f.Run(f.t.Context(), "waybill", "promote", "merge", "plan.json", "--results", results)
	want(f.t, r, 3, "UNAVAILABLE", "48 of 48 images are not there", "48 of 96")
	f.t.Log(r.Stdout)
}

// victim is a shard that several images fall to.
func (f *fleet) victim() int {
	for shard := range workers {
		if len(f.of(shard)) > 2 {
			return shard
		}
	}
	f.t.Fatal("no shard has several images")
	return 0
}

// mergedAnswer is what is read of a merged verdict.
type mergedAnswer struct {
	Counts struct{ Verified, Required, Missing int }
	Groups []struct {
		Name               string
		Verified, Required int
	}
}

func (f *fleet) merged() mergedAnswer {
	f.t.Helper()
	raw, err := os.ReadFile(f.Path("merged.json"))
	var v mergedAnswer
	if err = errors.Join(err, json.Unmarshal(raw, &v)); err != nil {
		f.t.Fatal(err)
	}
	return v
}
