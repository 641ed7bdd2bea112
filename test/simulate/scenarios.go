package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/scene"
)

// term is how long a lease lasts in a world.
const term = 2 * time.Minute

// Scenario is what happens in a world.
type Scenario struct {
	Name string
	// Share is how many of the seeds play it, in relation to the other scenarios.
	Share int
	// requests are about how many a process sends that is not killed.
	requests int
	play     func(m *Made, w *World) error
}

// Scenarios are all of them.
func Scenarios() []Scenario {
	return []Scenario{
		{"watch", 8, 7, watching},
		{"kit", 2, 200, carry},
		{"features", 2, 60, features},
		{"copies", 48, 60, copies},
		{"shards", 10, 120, divided},
		{"files", 24, 25, files},
		{"images", 2, 200, images},
		{"stage", 2, 280, stage},
		{"release", 1, 420, release},
	}
}

// Defect is a fault that a scenario puts into the product.
type Defect string

// The defects.
const (
	TagsBare    Defect = "an image is tagged without its evidence"
	NoExclusion Defect = "who does not get the lease goes on without it"
	LeaseGap    Defect = "the lease is checked, then something is read, then a tag is written"
	NoMemory    Defect = "a signer forgets what it signed when it is killed"
	NoSync      Defect = "nothing that is written is synced"
)

// Play plays a scenario with a seed, with a defect or with "".
func (s Scenario) Play(t *testing.T, m *Made, seed uint64, broken Defect) Result {
	t.Helper()
	return Run(t, seed, m.Since, func(w *World) {
		w.Broken, w.requests = broken, s.requests
		if err := m.enter(w); err != nil {
			w.Wrongf("simulate: %v", err)
			return
		}
		if err := s.play(m, w); err != nil {
			w.Wrongf("%v", err)
		}
	})
}

// lives is a process that is killed some times, and started again, and one that fails
// is started again later, as its operator would. It reports whether it was done.
func (w *World) lives(a *Actor, run func(ctx context.Context) error) bool {
	dice := w.dice(a.name + " lives")
	for life := range 4 {
		last := 0
		if life < 3 && (dice.IntN(2) == 0 || w.Broken != "") {
			last = 1 + dice.IntN(w.requests)
		}
		err := a.Do(last, run)
		if err == nil {
			return true
		}
		if !errors.Is(err, ErrKilled) {
			w.tolerate(a, err)
		}
		time.Sleep(time.Duration(dice.Int64N(int64(5 * time.Minute))))
	}
	return false
}

// tolerate ignores errors that a failing network explains, and records others: no
// such failure may make the product refuse a good release.
func (w *World) tolerate(a *Actor, err error) {
	code := verdict.FindingOf("", err).Code
	if !w.spoiled && verdict.OutcomeOf(err) != verdict.Unavailable && code != verdict.Busy {
		w.Wrongf("%s was refused, and nothing is wrong but the network: %v", a.name, err)
	}
}

// together runs a number of actors at the same time, each with its lives.
func (w *World) together(names []string, run func(ctx context.Context, a *Actor) error) (all []*Actor) {
	var group sync.WaitGroup
	for i, name := range names {
		a := w.Actor(name)
		all = append(all, a)
		begin := time.Duration(i)*time.Millisecond + time.Duration(w.dice(name+" begins").Int64N(int64(time.Minute)))
		group.Go(func() {
			time.Sleep(begin)
			w.lives(a, func(ctx context.Context) error { return run(ctx, a) })
		})
	}
	group.Wait()
	return all
}

// actors are the names of two processes, or of more in some worlds.
func (w *World) actors(most int) (names []string) {
	n := 2
	if dice := w.dice("actors"); dice.IntN(4) == 0 {
		n += dice.IntN(most - 1)
	}
	for i := range n {
		names = append(names, fmt.Sprintf("actor-%d", i))
	}
	return names
}

// settle ends all faults, and lets one of the actors finish.
func (w *World) settle(a *Actor, run func(ctx context.Context, a *Actor) error) error {
	w.Calm()
	time.Sleep(2 * term) // leases of the killed expire
	if err := a.Do(0, func(ctx context.Context) error { return run(ctx, a) }); err != nil {
		return fmt.Errorf("a run without faults does not finish the work: %w", err)
	}
	return nil
}

// holders know which actor has which lease.
type holders struct {
	w  *World
	mu sync.Mutex        // guards by
	by map[string]*Actor // by the name of the holder in the lease
}

// claimed is what a lease says.
type claimed struct {
	Holder  string
	Expires time.Time
}

// check notes who wrote a lease. Then, and when a tag or a manifest is written, the
// writer must have the lease, or nobody else.
func (h *holders) check(by *Actor, req *http.Request, lease string, guarded bool) error {
	var c claimed
	_ = json.Unmarshal(h.w.look(destBucket, "/leases/"+lease), &c) // none is held by nobody
	h.mu.Lock()
	defer h.mu.Unlock()
	if strings.Contains(req.URL.String(), "lease.json") && c.Holder != "" && h.by[c.Holder] == nil {
		h.by[c.Holder] = by
	}
	other := h.by[c.Holder]
	if guarded && other != nil && other != by && by.name != "" && time.Now().Before(c.Expires) {
		return fmt.Errorf("%s wrote while %s has the lease", by.name, other.name)
	}
	return nil
}

// publishes reports whether a request makes something public: a tag, or the manifest.
func publishes(req *http.Request) bool {
	at := req.URL.Path
	return req.Method == http.MethodPut && strings.Contains(at, "/manifests/") && !strings.Contains(at, "/manifests/sha256:") ||
		strings.Contains(req.URL.RawQuery, "release.manifest")
}

// release is the publication of a staged release by several processes that have one
// lease: gate, promotion, verification, records.
func release(m *Made, w *World) error {
	h := &holders{w: w, by: map[string]*Actor{}}
	w.Check = func(by *Actor, req *http.Request) error {
		err := h.check(by, req, "lantern-"+scene.Version+".lease.json", publishes(req))
		if publishes(req) || strings.Contains(req.URL.Path, "/b/release/") {
			err = errors.Join(m.sound(w, "release"), err)
		}
		return err
	}
	run := func(ctx context.Context, a *Actor) error {
		p, err := m.pipeline(ctx, a.process(), a.Disk)
		if err != nil {
			return err
		}
		_, err = p.Release(ctx)
		return err
	}
	all := w.together(w.actors(3), run)
	if err := w.settle(all[0], run); err != nil {
		return err
	}
	if w.file("release", releasemanifest.Name) == nil {
		return errors.New("the release is done, and its manifest is not there")
	}
	return m.sound(w, "release")
}

// images is the promotion of an image to several registries by several processes, which
// have one lease, or a shard each.
func images(m *Made, w *World) error {
	dice := w.dice("images")
	manifest := promoterfile.Manifest{Name: "images", Source: promoterfile.Place{Name: m.Lab.Registry + "/staging/lantern"}}
	for i := range 1 + dice.IntN(3) {
		manifest.Destinations = append(manifest.Destinations, promoterfile.Place{Name: fmt.Sprintf("%s/region-%d", destRegistry, i)})
	}
	image := m.images[0]
	manifest.Images = []promoterfile.Image{{Name: image.name, Digests: []promoterfile.Pinned{{Digest: image.digest, Tags: []string{scene.Version}}}}}
	plan, err := promotionplan.Make([]promoterfile.Manifest{manifest})
	if err != nil {
		return err
	}
	sound := func() error {
		for _, to := range manifest.Destinations {
			if err := image.sound(w, destRegistry, strings.TrimPrefix(to.Name, destRegistry+"/")+"/"+image.name); err != nil {
				return err
			}
		}
		return nil
	}
	h := &holders{w: w, by: map[string]*Actor{}}
	w.Check = func(by *Actor, req *http.Request) error {
		err := h.check(by, req, "promotion.lease.json", publishes(req))
		if publishes(req) {
			err = errors.Join(sound(), err)
		}
		return err
	}
	run := func(ctx context.Context, a *Actor) error {
		p, err := m.pipeline(ctx, a.process(), a.Disk)
		if err != nil {
			return err
		}
		with := pipeline.Shared{Results: "gs+http://" + destBucket + "/results/", Exclusion: a.process().Exclusion}
		done, err := p.PromoteShard(ctx, plan, pipeline.Promotion{}, with)
		if err != nil {
			return err
		}
		return done.Verdict.Err()
	}
	all := w.together(w.actors(15), run)
	if err := w.settle(all[0], run); err != nil {
		return err
	}
	for _, to := range manifest.Destinations {
		if !image.tagged(w, destRegistry, strings.TrimPrefix(to.Name, destRegistry+"/")+"/"+image.name) {
			return fmt.Errorf("the promotion is done, and the tag in %s is not there", to.Name)
		}
	}
	return sound()
}
