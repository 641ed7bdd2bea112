// Package promote measures what it takes to bring images from one registry to
// another with the evidence about them: with waybill, which judges each first,
// and with crane and cosign, which copy; and what it takes to see that all is
// there, and to judge without copying.
//
//	err := promote.Seed(ctx, dir, 1000)
//	err = promote.Run(ctx, os.Stdout, promote.Request{Way: promote.Apply, N: 1000, Seed: dir, …})
//
// Both registries are the lab's, on loopback, and as far away as is asked. Each
// run has an empty destination, because what a registry has it need not be
// sent. Whoever promotes is a process of its own, or one for each image where
// that is the only way; the processes are measured, and not the registries,
// which count what they are asked.
package promote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/bench"
	"github.com/waybill-release/waybill/test/bench/far"
	"github.com/waybill-release/waybill/test/bench/sign"
)

// Ways are who does what.
const (
	Apply  = "apply"  // waybill promotes
	Again  = "again"  // waybill promotes what is there
	Gate   = "gate"   // waybill judges, and copies nothing
	Crane  = "crane"  // crane copies
	Cosign = "cosign" // cosign copies
)

// Request is one run.
type Request struct {
	Way string
	N   int // images
	// Trip is a round trip to a registry and back.
	Trip time.Duration
	// Rate is how many requests a second both registries answer together, if it
	// is not zero.
	Rate int
	// Abreast is how many processes of a peer are under way at a time.
	Abreast int
	Bin     string // directory of waybill
	Peer    string // the crane or cosign
	Seed    string // what [Seed] made
	Dir     string // where scenes are made
}

// Facts that a run counts besides its requests in all.
const (
	FactTags      = "tags"      // at the destination afterwards
	FactReferrers = "referrers" // to the images there
)

// scene is a promotion that can begin.
type scene struct {
	Request
	dir      string
	from, to *far.Host
	quota    *rate.Limiter
	digests  []string
}

// Run promotes once and says on w what that took.
func Run(ctx context.Context, w io.Writer, req Request) (err error) {
	dir, err := os.MkdirTemp(req.Dir, "promote-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := open(req, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	commands, err := s.commands(ctx)
	if err != nil {
		return err
	}
	s.from.Count()
	s.to.Count()
	sample, err := sign.Processes(ctx, commands, max(1, req.Abreast))
	if err != nil {
		return fmt.Errorf("%s: %w", req.Way, err)
	}
	sample.Facts, sample.Requests = far.Sum(s.from.Count(), s.to.Count())
	if s.quota != nil {
		s.quota.SetLimit(rate.Inf)
	}
	if err := s.look(ctx, &sample); err != nil {
		return fmt.Errorf("%s, what it left: %w", req.Way, err)
	}
	return json.NewEncoder(w).Encode(sample)
}

func open(req Request, dir string) (s *scene, err error) {
	s = &scene{Request: req, dir: dir}
	if s.digests, err = images(req.Seed); err != nil {
		return nil, err
	}
	if len(s.digests) < req.N {
		return nil, fmt.Errorf("there are %d images, want %d", len(s.digests), req.N)
	}
	s.digests = s.digests[:req.N]
	if req.Rate > 0 {
		s.quota = rate.NewLimiter(rate.Limit(req.Rate), req.Rate)
	}
	if s.from, err = far.OpenLimited(filepath.Join(req.Seed, storageName), req.Trip, s.quota); err != nil {
		return nil, err
	}
	if s.to, err = far.OpenLimited(filepath.Join(dir, "destination"), req.Trip, s.quota); err != nil {
		return nil, errors.Join(err, s.from.Close())
	}
	return s, nil
}

func (s *scene) close() error { return errors.Join(s.from.Close(), s.to.Close()) }

func (s *scene) source(i int) string {
	return s.from.Name + "/" + staging + "/" + fmt.Sprintf(imagesFormat, i)
}

func (s *scene) destination(i int) string { return s.to.Name + "/prod/" + fmt.Sprintf(imagesFormat, i) }

// commands prepares what is measured.
func (s *scene) commands(ctx context.Context) ([]*exec.Cmd, error) {
	var list []*exec.Cmd
	switch s.Way {
	case Apply, Again, Gate:
		return s.ours(ctx)
	case Crane:
		for i := range s.digests {
			list = append(list, s.command(ctx, s.Peer, "copy", s.source(i)+":"+imageTag, s.destination(i)+":"+imageTag))
		}
	case Cosign:
		for i := range s.digests {
			list = append(list, s.command(ctx, s.Peer, "copy", "--allow-http-registry", s.source(i)+":"+imageTag, s.destination(i)+":"+imageTag))
		}
	default:
		return nil, fmt.Errorf("no way to promote is called %q", s.Way)
	}
	return list, nil
}

// command is one with nobody's credentials and nobody's memory.
func (s *scene) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "DOCKER_CONFIG="+s.dir, "XDG_CACHE_HOME="+filepath.Join(s.dir, "cache"))
	return cmd
}

// ours is one process of waybill for all images.
func (s *scene) ours(ctx context.Context) ([]*exec.Cmd, error) {
	if err := s.write(); err != nil {
		return nil, err
	}
	waybill := filepath.Join(s.Bin, "waybill")
	plan, err := s.command(ctx, waybill, "promote", "plan", "manifest.yaml", "-o", "json").Output()
	if err != nil {
		return nil, fmt.Errorf("planning: %w", err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "plan.json"), plan, 0o600); err != nil {
		return nil, err
	}
	if s.Way == Gate {
		return []*exec.Cmd{s.command(ctx, waybill, "gate", "check", "plan.json", "--policy", policyName, "--trusted-root", rootName)}, nil
	}
	apply := func() *exec.Cmd {
		return s.command(ctx, waybill, "promote", "apply", "plan.json", "--profile", "profile.yaml", "--state", "state", "--confirm")
	}
	if s.Way == Again {
		if said, err := apply().CombinedOutput(); err != nil {
			return nil, fmt.Errorf("promoting for the first time: %w\n%s", err, said)
		}
	}
	return []*exec.Cmd{apply()}, nil
}

// write writes what waybill reads.
func (s *scene) write() error {
	for _, name := range []string{policyName, rootName} {
		raw, err := os.ReadFile(filepath.Join(s.Seed, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(s.dir, name), raw, 0o600); err != nil {
			return err
		}
	}
	profile := fmt.Sprintf(`apiVersion: waybill/v1
kind: Profile
name: bench
policy: %s
trustedRoot: %s
places:
  files: {canonical: "https://dl.example.test/{version}/", staging: "file:///nowhere/{version}/", release: "file:///nowhere/{version}/"}
  images: {canonical: registry.example.test, staging: %s, release: %s}
`, policyName, rootName, s.from.Name, s.to.Name)
	manifest := &strings.Builder{}
	fmt.Fprintf(manifest, "registries:\n- {name: %s/%s, src: true}\n- {name: %s/prod}\nimages:\n", s.from.Name, staging, s.to.Name)
	for i, d := range s.digests {
		fmt.Fprintf(manifest, "- name: "+imagesFormat+"\n  dmap: {%q: [%q]}\n", i, d, imageTag)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(s.dir, "profile.yaml"), []byte(profile), 0o600),
		os.WriteFile(filepath.Join(s.dir, "manifest.yaml"), []byte(manifest.String()), 0o600))
}

// look counts what is at the destination, from nearby.
func (s *scene) look(ctx context.Context, sample *bench.Sample) error {
	if s.Way == Gate {
		return nil
	}
	remote, err := registry.OpenRemote(s.to.Name+"/prod", http.DefaultTransport)
	if err != nil {
		return err
	}
	var mu sync.Mutex // owns sample
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lookers)
	for i, want := range s.digests {
		group.Go(func() error {
			name := fmt.Sprintf(imagesFormat, i)
			d, err := remote.Resolve(ctx, name, imageTag)
			if err == nil && d.Digest.String() != want {
				err = fmt.Errorf("%s is %s, want %s", name, d.Digest, want)
			}
			if err != nil {
				return err
			}
			n, err := referrers(ctx, remote, name, d)
			mu.Lock()
			defer mu.Unlock()
			sample.Facts[FactTags]++
			sample.Facts[FactReferrers] += n
			return err
		})
	}
	return group.Wait()
}

// lookers is how many images are looked at at a time.
const lookers = 64

// referrers counts what refers to an image and to its platforms.
func referrers(ctx context.Context, remote *registry.Remote, name string, d registry.Descriptor) (n int, err error) {
	node, err := registry.Graph(ctx, remote, name, d)
	if err != nil {
		return 0, err
	}
	all := []digest.Digest{d.Digest}
	for _, child := range node.Children {
		all = append(all, child.Descriptor.Digest)
	}
	for _, of := range all {
		found, err := remote.Referrers(ctx, name, of)
		if err != nil {
			return 0, err
		}
		n += len(found)
	}
	return n, nil
}
