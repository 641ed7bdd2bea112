package coverage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/coverage"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/testing/lifecycle"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// places is what is public, and why the gate would refuse some of it.
type places struct {
	images []coverage.Image
	empty  []string
	why    map[string]error // by repository
	down   error
	asked  atomic.Int32
}

func public(names ...string) *places {
	p := &places{why: map[string]error{}}
	for _, n := range names {
		p.images = append(p.images, coverage.Image{Repository: n, Digest: digest.Of(digest.SHA256, []byte(n)), Tags: []string{"v0.1.0"}})
	}
	return p
}

func (p *places) Images(_ context.Context, s feature.Scope) (coverage.Listed, error) {
	list := coverage.Listed{Empty: p.empty}
	for _, i := range p.images {
		if feature.Covers(s, i.Repository) {
			list.Images = append(list.Images, i)
		}
	}
	return list, p.down
}

func (p *places) Judge(_ context.Context, i coverage.Image) error {
	p.asked.Add(1)
	return p.why[i.Repository]
}

func lacking(name string) error {
	return verdict.Refuse(verdict.NoProvenance, name, "nobody says how it was built")
}

func everywhere() reconcile.Work {
	return reconcile.Work{Key: feature.Key{Namespace: "waybill", Name: "RequireProvenance"}, State: feature.TurningOn, Scope: feature.Scope{Everything: true}}
}

// TestAudit: each row differs from the first in one fact.
func TestAudit(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*places)
		done   bool
		remain int
		says   string // of the outcome or the error
		fails  bool
	}{
		"all have it":  {func(*places) {}, true, 0, "all of 3 images would be accepted", false},
		"one has none": {func(p *places) { p.why["r.example.test/b"] = lacking("b") }, false, 1, "1 of 3 images would be refused: r.example.test/b:v0.1.0@sha256:", false},
		"it says why":  {func(p *places) { p.why["r.example.test/b"] = lacking("b") }, false, 1, "(NO_PROVENANCE)", false},
		"it has several tags": {func(p *places) {
			p.why["r.example.test/b"] = lacking("b")
			p.images[1].Tags = []string{"latest", "v0.1", "v0.1.0"}
		}, false, 1, "r.example.test/b:latest@" + digest.Of(digest.SHA256, []byte("r.example.test/b")).String() + " (NO_PROVENANCE), also tagged v0.1, v0.1.0", false},
		"it has many tags": {func(p *places) {
			p.why["r.example.test/b"] = lacking("b")
			p.images[1].Tags = []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		}, false, 1, "(NO_PROVENANCE), also tagged b, c, d, e, f and 2 more", false},
		"it has no tag": {func(p *places) {
			p.why["r.example.test/b"] = lacking("b")
			p.images[1].Tags = nil
		}, false, 1, "r.example.test/b@sha256:", false},
		"one cannot be decided": {func(p *places) {
			p.why["r.example.test/b"] = &verdict.UnavailableError{Place: "r", Op: "reading", Err: errors.New("timeout")}
		}, false, 0, "timeout", true},
		"one answers oddly":     {func(p *places) { p.why["r.example.test/b"] = errors.New("what?") }, false, 0, "what?", true},
		"nothing is public":     {func(p *places) { p.images = nil }, false, 1, "no public image is in the scope", false},
		"a repository is empty": {func(p *places) { p.empty = []string{"r.example.test/d"} }, false, 1, "check its spelling, or leave it out until there is one: r.example.test/d (no public image there)", false},
		"one is empty, one has none": {func(p *places) {
			p.empty, p.why["r.example.test/b"] = []string{"r.example.test/d"}, lacking("b")
		}, false, 2, "(NO_PROVENANCE), r.example.test/d (no public image there)", false},
		"the list is cut short": {func(p *places) { p.down = errors.New("page 2 is missing") }, false, 0, "page 2 is missing", true},
		"one without a digest":  {func(p *places) { p.images[1].Digest = digest.Digest{} }, false, 0, "is not in the scope", true},
		"a verdict that refuses": {func(p *places) {
			v := verdict.New("image", time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
			v.Add(verdict.Find(verdict.Level, "a", "too low"))
			p.why["r.example.test/a"] = v.Err()
		}, false, 1, "(LEVEL)", false},
		"the reason that refuses": {func(p *places) {
			v := verdict.New("image", time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
			v.Add(verdict.Find(verdict.PlaceDown, "a", "its log is down"), verdict.Find(verdict.Level, "a", "too low"))
			p.why["r.example.test/a"] = v.Err()
		}, false, 1, "(LEVEL)", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := public("r.example.test/a", "r.example.test/b", "r.example.test/c")
			row.change(p)
			o, err := coverage.Audit{Public: p, Judge: p}.Sweep(t.Context(), everywhere())
			text := o.Message + ": " + strings.Join(o.Names, ", ")
			if err != nil {
				text = err.Error()
			}
			if o.Done != row.done || o.Remaining != row.remain || (err != nil) != row.fails || !strings.Contains(text, row.says) {
				t.Errorf("%+v, %v", o, err)
			}
			if err != nil && (o.Done || o.Message != "") {
				t.Errorf("an error, and an outcome: %+v", o)
			}
		})
	}
}

// TestLogUnasked: where only a log could tell, nothing is decided, and the next
// act is one that there is.
func TestLogUnasked(t *testing.T) {
	p := public("r.example.test/a", "r.example.test/b")
	v := verdict.New("image", time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	v.Add(verdict.Find(verdict.LogUnasked, "signature", "it carries no log entry"))
	p.why["r.example.test/b"] = v.Err()
	_, err := coverage.Audit{Public: p, Judge: p}.Sweep(t.Context(), everywhere())
	f := verdict.FindingOf("", err)
	if f.Code != verdict.LogUnasked || verdict.OutcomeOf(err) != verdict.Unavailable || !strings.Contains(f.Fix, "sign it again") || !strings.Contains(err.Error(), "judging r.example.test/b:v0.1.0@") {
		t.Errorf("%v; %s", err, f.Fix)
	}
}

// TestScopeIsHonoured: what is outside the scope is not asked about, and a place
// that lists it all the same is not believed.
func TestScopeIsHonoured(t *testing.T) {
	p := public("r.example.test/in/a", "r.example.test/out")
	p.why["r.example.test/out"] = lacking("out")
	w := everywhere()
	w.Scope = feature.Scope{Repositories: []string{"r.example.test/in"}}
	o, err := coverage.Audit{Public: p, Judge: p}.Sweep(t.Context(), w)
	if err != nil || !o.Done || p.asked.Load() != 1 {
		t.Errorf("%+v, %v, asked %d times", o, err, p.asked.Load())
	}
	if _, err := (coverage.Audit{Public: all{p}, Judge: p}).Sweep(t.Context(), w); err == nil {
		t.Error("an image outside the scope was judged")
	}
}

type all struct{ *places }

func (a all) Images(context.Context, feature.Scope) (coverage.Listed, error) {
	return coverage.Listed{Images: a.images}, nil
}

// TestMany: a thousand images are asked about once each, and each is named.
func TestMany(t *testing.T) {
	p := public()
	for i := range 1000 {
		name := fmt.Sprintf("r.example.test/i%04d", i)
		p.images = append(p.images, coverage.Image{Repository: name, Digest: digest.Of(digest.SHA256, []byte(name))})
		p.why[name] = lacking(name)
	}
	o, err := coverage.Audit{Public: p, Judge: p}.Sweep(t.Context(), everywhere())
	if err != nil || o.Remaining != 1000 || p.asked.Load() != 1000 || o.Message != "1000 of 1000 images would be refused" || len(slices.Compact(o.Names)) != 1000 || !slices.IsSorted(o.Names) {
		t.Errorf("%+v, %v, asked %d times", o, err, p.asked.Load())
	}
}

// TestRequireProvenance: over a registry with three images that nobody attested
// it is warned about them by name, they are mended, and it goes On; then off
// again with nothing dangling, and everything as it was.
func TestRequireProvenance(t *testing.T) {
	v, err := version.Parse("v0.2.0")
	if err != nil {
		t.Fatal(err)
	}
	k := feature.Key{Namespace: feature.CoreNamespace, Name: "RequireProvenance"}
	r, err := feature.NewRegistry(feature.Namespace{Name: k.Namespace, Features: []feature.Definition{{
		Name: k.Name, About: "every image that is promoted has provenance", Pristine: true,
		Versions: []feature.Version{{Since: v, Stage: feature.Beta, Default: feature.Off}},
		OnTasks:  []feature.Job{{Kind: feature.Sweep, Name: known.CoverageAudit}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	p := public("r.example.test/a", "r.example.test/b", "r.example.test/c")
	for _, i := range p.images {
		p.why[i.Repository] = lacking(i.Repository)
	}
	s, err := featurestore.OpenDirectory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	warned := ""
	audit := sweepFunc(func(ctx context.Context, w reconcile.Work) (feature.Outcome, error) {
		f, err := s.Get(ctx, k)
		if err != nil {
			return feature.Outcome{}, err
		}
		if f.Mode("r.example.test/a") != feature.ModeWarn {
			t.Errorf("while it is audited the gate does not warn: %s", f.Status.State)
		}
		o, err := coverage.Audit{Public: p, Judge: p}.Sweep(ctx, w)
		if !o.Done && warned == "" {
			warned = strings.Join(o.Names, "\n")
			p.why = map[string]error{} // somebody attests them, and the next pass looks again
		}
		return o, err
	})
	fixture := lifecycle.Fixture{
		Deeds:    reconcile.Deeds{Sweeps: map[string]reconcile.Sweep{known.CoverageAudit: audit}, Dangling: reconcile.Nothing{}},
		Use:      func(context.Context) error { return nil },
		Snapshot: func(context.Context) ([]byte, error) { return []byte(fmt.Sprint(p.images)), nil },
	}
	if err := lifecycle.Walk(t.Context(), s, r, k, fixture); err != nil {
		t.Fatal(err)
	}
	for _, i := range p.images {
		if !strings.Contains(warned, i.String()) {
			t.Errorf("%s is not named: %q", i, warned)
		}
	}
}

type sweepFunc func(context.Context, reconcile.Work) (feature.Outcome, error)

func (f sweepFunc) Sweep(ctx context.Context, w reconcile.Work) (feature.Outcome, error) {
	return f(ctx, w)
}
