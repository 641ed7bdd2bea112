package simulate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/backend/lease"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/scene"
)

// spoiled answers a request for one object with one other byte.
type spoiled struct {
	http.Handler
	path string // the end of its path
	met  atomic.Int64
}

// ServeHTTP implements [http.Handler].
func (s *spoiled) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !strings.HasSuffix(req.URL.Path, s.path) || req.Method != http.MethodGet {
		s.Handler.ServeHTTP(w, req)
		return
	}
	s.met.Add(1)
	rec := httptest.NewRecorder()
	s.Handler.ServeHTTP(rec, req)
	body := rec.Body.Bytes()
	if len(body) > 0 {
		body[len(body)/2] ^= 1
	}
	for name, values := range rec.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(body)
}

// bare is a registry without referrers.
type bare struct{ http.Handler }

// ServeHTTP implements [http.Handler].
func (b bare) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if strings.Contains(req.URL.Path, "/referrers/") {
		http.NotFound(w, req)
		return
	}
	b.Handler.ServeHTTP(w, req)
}

// whole accepts every image that is whole at its source. Evidence is judged in the other
// scenarios: this one is about copying, and cheap.
type whole struct{}

// Image implements [gate.ImageJudge].
func (whole) Image(ctx context.Context, image gate.Image) *verdict.Verdict {
	v := verdict.New("image", time.Now())
	v.Counts.Required, v.Policy = 1, digest.Of(digest.SHA256, []byte("whole"))
	d, err := image.Source.Resolve(ctx, image.Repository, image.Digest.String())
	if err == nil {
		_, err = registry.Graph(ctx, image.Source, image.Repository, d)
	}
	if err != nil {
		v.AddError(image.Name, err)
		return v
	}
	v.Counts.Verified = 1
	v.Proofs = []verdict.Proof{{Subject: image.Name, Bundle: v.Policy}}
	return v
}

// copies is the copying of an image to several registries by several processes with one
// lease, without a policy. In some worlds the source has a blob with a wrong byte.
func copies(m *Made, w *World) error {
	dice := w.dice("copies")
	image, source := m.tiny[0], m.Lab.Registry+"/tiny" // has little to copy, so many seeds can be played
	if dice.IntN(6) == 0 {
		image, source = m.images[0], m.Lab.Registry+"/staging/lantern"
	}
	var bad *spoiled
	if dice.IntN(4) == 0 {
		d := image.blobs[dice.IntN(len(image.blobs))]
		bad, w.spoiled = &spoiled{Handler: w.Hosts[m.Lab.Registry], path: d.String()}, true
		w.Hosts[m.Lab.Registry] = bad
	}
	if w.Broken == TagsBare {
		image, source = m.images[0], m.Lab.Registry+"/staging/lantern"
		w.Hosts[m.Lab.Registry] = bare{w.Hosts[m.Lab.Registry]}
	}
	route := promotionplan.Route{Manifest: "copies", Source: source}
	for i := range 1 + dice.IntN(3) {
		route.Destinations = append(route.Destinations, fmt.Sprintf("%s/region-%d", destRegistry, i))
	}
	plan := promotionplan.Plan{Schema: promotionplan.Schema, Routes: []promotionplan.Route{route}, Edges: []promotionplan.Edge{
		{Image: image.name, Digest: image.digest, Tags: []string{"latest", scene.Version}},
	}}
	goal := regions{w, image, route.Destinations}
	h := &holders{w: w, by: map[string]*Actor{}}
	w.Check = func(by *Actor, req *http.Request) error {
		err := h.check(by, req, "copies.lease.json", publishes(req))
		if publishes(req) {
			err = errors.Join(goal.sound(), err)
		}
		return err
	}
	run := func(ctx context.Context, a *Actor) error {
		done, err := w.copy(ctx, a, plan, promotionplan.Shard{})
		if err != nil {
			return err
		}
		return done.Verdict.Err()
	}
	all := w.together(w.actors(15), run)
	err := w.settle(all[0], run)
	if bad != nil && bad.met.Load() > 0 {
		if code := verdict.FindingOf("", err).Code; verdict.OutcomeOf(err) != verdict.Refused {
			return fmt.Errorf("a blob of the source has other bytes, and the promotion ends with %q: %w", code, err)
		}
		return goal.untagged()
	}
	return errors.Join(err, goal.tagged(), goal.sound())
}

// copy is one process that copies a shard of a plan.
func (w *World) copy(ctx context.Context, a *Actor, plan promotionplan.Plan, s promotionplan.Shard) (done promote.Applied, err error) {
	at, err := cloud.Open(leases, a.Transport)
	if err != nil {
		return done, err
	}
	held, err := lease.Claim(ctx, lease.Place{Place: at, Writer: at}, leaseOf(s), lease.Config{Holder: a.name + " " + fmt.Sprint(a.life), Term: term, Clock: a.Clock})
	exclusive := func(ctx context.Context) error { return held.Held(ctx) }
	switch {
	case err == nil:
		defer func() { _ = held.Release(ctx) }() // if this fails, the lease expires
	case w.Broken != NoExclusion:
		return done, err
	default:
		exclusive = nil
	}
	if w.Broken == LeaseGap {
		exclusive = func(ctx context.Context) error {
			err := held.Held(ctx)
			_, _ = at.List(ctx) // whatever comes of it
			return err
		}
	}
	j, err := journal.Open(filepath.Join(a.Disk, fmt.Sprintf("promotions-%d-of-%d.jsonl", s.Index, s.Of)))
	if err != nil {
		return done, err
	}
	defer j.Close()
	return promote.Images{
		Plan: plan, Shard: s, Ledger: promote.OpenLedger(j, "simulated", a.Clock),
		Judge:  func(promotionplan.Route, promotionplan.Edge) (gate.ImageJudge, error) { return whole{}, nil },
		Open:   func(prefix string) (*registry.Remote, error) { return registry.OpenRemote(prefix, a.Transport) },
		Rights: promote.Rights{Exclusive: exclusive}, Run: promote.Run{Now: a.Clock()},
	}.Apply(ctx)
}

// regions are the places where an image goes.
type regions struct {
	w     *World
	image staged
	to    []string
}

func (r regions) each(check func(repository string) error) error {
	for _, to := range r.to {
		if err := check(strings.TrimPrefix(to, destRegistry+"/") + "/" + r.image.name); err != nil {
			return err
		}
	}
	return nil
}

// sound checks that a tag that is there has all that belongs to it.
func (r regions) sound() error {
	return r.each(func(repository string) error { return r.image.sound(r.w, destRegistry, repository) })
}

func (r regions) tagged() error {
	return r.each(func(repository string) error {
		if !r.image.tagged(r.w, destRegistry, repository) {
			return fmt.Errorf("the promotion is done, and the tag in %s is not there", repository)
		}
		return nil
	})
}

func (r regions) untagged() error {
	return r.each(func(repository string) error {
		if r.image.tagged(r.w, destRegistry, repository) {
			return fmt.Errorf("the image was refused, and the tag in %s is there", repository)
		}
		return nil
	})
}

// files is the promotion of a file with its evidence to several buckets by several
// processes without a lease. In some worlds the source has a wrong byte in the file, or
// in its evidence.
func files(m *Made, w *World) error {
	dice := w.dice("files")
	names := []string{"bin/lantern", "bin/lantern.sigstore.json"}
	var bad *spoiled
	host := strings.TrimPrefix(m.Lab.Bucket, "http://")
	if dice.IntN(3) == 0 {
		bad, w.spoiled = &spoiled{Handler: w.Hosts[host], path: names[dice.IntN(2)]}, true
		w.Hosts[host] = bad
	}
	plan := promotionplan.Plan{Schema: promotionplan.Schema, Routes: []promotionplan.Route{}, Edges: []promotionplan.Edge{}}
	s := promotionplan.Store{Manifest: "files", Source: m.Places.Files + "/staging/lantern/" + scene.Version + "/"}
	for i := range 1 + dice.IntN(2) {
		s.Destinations = append(s.Destinations, fmt.Sprintf("gs+http://%s/release/region-%d/", destBucket, i))
	}
	plan.Stores = []promotionplan.Store{s}
	for _, name := range names[:1+dice.IntN(2)] {
		plan.Files = append(plan.Files, promotionplan.File{Name: name, Digest: digest.Of(digest.SHA256, m.files[name])})
	}
	sound := func(must bool) error {
		for i := range s.Destinations {
			file := w.look(destBucket, fmt.Sprintf("/release/region-%d/%s", i, names[0]))
			evidence := w.look(destBucket, fmt.Sprintf("/release/region-%d/%s", i, names[1]))
			switch {
			case file == nil && must:
				return errors.New("the promotion is done, and the file is not there")
			case file != nil && bad != nil && bad.met.Load() > 0:
				return errors.New("the file was refused, and it is there")
			case file != nil && (evidence == nil || !bytes.Equal(file, m.files[names[0]]) || !bytes.Equal(evidence, m.files[names[1]])):
				return errors.New("the file is there, and its evidence is not, or one of them has other bytes")
			}
		}
		return nil
	}
	w.Check = func(*Actor, *http.Request) error { return sound(false) }
	run := func(ctx context.Context, a *Actor) error {
		in := a.process()
		in.Profile = "files.yaml"
		p, err := m.pipeline(ctx, in, a.Disk)
		if err != nil {
			return err
		}
		v, err := p.PromoteFiles(ctx, plan, pipeline.Promotion{})
		if err != nil {
			return err
		}
		return v.Err()
	}
	all := w.together(w.actors(7), run)
	err := w.settle(all[0], run)
	if bad != nil {
		if verdict.OutcomeOf(err) != verdict.Refused {
			return fmt.Errorf("%s has other bytes, and the promotion ends with: %w", bad.path, err)
		}
		return sound(false)
	}
	return errors.Join(err, sound(true))
}

// stage signs, seals and stages what is built. It is one process with one disk, which is
// killed more often than others.
func stage(m *Made, w *World) error {
	for from, to := range map[string]string{strings.TrimPrefix(m.Lab.Bucket, "http://"): destBucket, m.Lab.Registry: destRegistry} {
		w.Hosts[from] = w.Hosts[to] // the staging of this world
	}
	_, before := m.Lab.LoggedSince(0)
	w.Check = func(_ *Actor, req *http.Request) error {
		if !publishes(req) {
			return nil
		}
		return m.halfStaged(w)
	}
	run := func(ctx context.Context, a *Actor) error {
		state := filepath.Join(a.Disk, "state")
		if _, err := os.Stat(state); err != nil {
			if err := errors.Join(os.CopyFS(state, os.DirFS(m.Built)), a.Keep()); err != nil {
				return err
			}
		}
		if w.Broken == NoMemory {
			_ = os.Remove(filepath.Join(state, "signatures.jsonl")) // it may not be there
		}
		p, err := m.pipeline(ctx, a.process(), state)
		if err != nil {
			return err
		}
		for _, act := range []func(context.Context) error{p.Sign, p.Seal, p.PromoteToStaging} {
			if err := act(ctx); err != nil {
				return err
			}
		}
		v, err := p.Decide(ctx, profile.Staging)
		if err != nil {
			return err
		}
		return v.Err()
	}
	all := w.together([]string{"signer"}, run)
	err := errors.Join(w.settle(all[0], run), m.halfStaged(w))
	if w.file("staging", releasemanifest.Name) == nil {
		err = errors.Join(err, errors.New("the release is staged, and its manifest is not there"))
	}
	entries, _ := m.Lab.LoggedSince(before)
	return errors.Join(err, once(entries))
}

// halfStaged refuses a staged manifest without all of the release.
func (m *Made) halfStaged(w *World) error {
	if w.file("staging", releasemanifest.Name) == nil {
		return nil
	}
	for name := range m.files {
		if w.file("staging", name) == nil {
			return fmt.Errorf("the manifest is staged, and %s is not", name)
		}
	}
	if !m.images[0].tagged(w, destRegistry, "staging/lantern/lantern") {
		return errors.New("the manifest is staged, and the tag of the image is not")
	}
	return nil
}

var signedContent = regexp.MustCompile(`"digest":"([^"]+)"`)

// once refuses log entries of equal content: a signature that was logged and made again.
func once(entries []string) error {
	seen := map[string]bool{}
	for _, e := range entries {
		content := signedContent.FindStringSubmatch(e)
		if len(content) == 0 || seen[content[1]] {
			return fmt.Errorf("of %d log entries two have the same content: %s", len(entries), e)
		}
		seen[content[1]] = true
	}
	if len(entries) == 0 {
		return errors.New("nothing was logged")
	}
	return nil
}
