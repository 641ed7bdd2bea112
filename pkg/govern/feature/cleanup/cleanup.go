// Package cleanup has the tasks of features that change what is attached to images
// in public repositories: it strips trace annotations, counts verification summaries
// that are still valid, and attaches evidence in the other form (referrers or tags).
//
//	s, err := cleanup.New(cleanup.Config{Repositories: public, Open: open, Verifier: v, Policy: p})
//	…
//	deeds := s.Deeds() // of TraceAnnotations, EmitVSA and BundleReferrers
//
// Four rules hold for everything here:
//
//   - Only repositories that are public and in the scope of the feature are
//     written to.
//   - Evidence can be found at any moment, even after an interruption: a
//     replacement is written, and found in the list, before the original is
//     removed. All tasks are idempotent, also when two programs run them at once.
//   - Only our evidence is changed: what an identity of the policy signed about
//     this image. Annotations do not decide that, because anyone can attach them.
//   - What cannot be done is reported by name and retried.
//
// Registries have no conditional writes of tags, and without the referrers API the
// list of referrers is a tag. Another program that writes the same list at the same
// time can lose an entry of it; our entries are looked for afterwards, and added
// again.
//
// Other projects should not import this package: it changes without notice.
package cleanup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/rekorv1"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Config configures the tasks.
type Config struct {
	// Repositories are the public ones, each HOST/PATH.
	Repositories []string
	// Open opens the registry of a host. It is called once per host and pass.
	Open func(host string) (*registry.Remote, error)
	// Verifier verifies evidence, and Policy says which identities are ours.
	Verifier *verify.Verifier
	Policy   policy.Policy
	// Finder completes signatures in legacy forms that carry no log entry.
	Finder rekorv1.Finder
	// Validity is how long a summary counts whose verifier the policy does not
	// name. Default: the longest time in the policy, or 90 days.
	Validity time.Duration
	// Clock is the time. Default [time.Now].
	Clock func() time.Time
}

// Sweeps makes the tasks. It keeps nothing between two passes.
type Sweeps struct{ c Config }

// New refuses a configuration without registries, verifier or policy.
func New(c Config) (*Sweeps, error) {
	if c.Open == nil || c.Verifier == nil || c.Policy.Digest().IsZero() {
		return nil, usage("Open, Verifier and Policy are required")
	}
	for _, r := range c.Repositories {
		if host, path, _ := strings.Cut(r, "/"); host == "" || path == "" {
			return nil, usage("public repository %q: want HOST/PATH", r)
		}
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Validity == 0 {
		for _, age := range policy.SummaryAges(c.Policy) {
			c.Validity = max(c.Validity, age)
		}
	}
	if c.Validity == 0 {
		c.Validity = 90 * 24 * time.Hour
	}
	return &Sweeps{c}, nil
}

// Deeds are the tasks of the features that change what is in registries.
func (s *Sweeps) Deeds() map[feature.Key]reconcile.Deeds {
	key := func(name string) feature.Key { return feature.Key{Namespace: feature.CoreNamespace, Name: name} }
	return map[feature.Key]reconcile.Deeds{
		key(known.TraceAnnotations): {
			Sweeps:   map[string]reconcile.Sweep{known.StripAnnotations: s.StripAnnotations()},
			Dangling: s.Annotated(),
		},
		key(known.EmitVSA): {
			Holds:    map[string]reconcile.Counter{known.VSAsInForce: s.VSAsInForce()},
			Dangling: s.VSAsLeft(),
		},
		key(known.BundleReferrers): {
			Sweeps:   map[string]reconcile.Sweep{known.Backfill: s.Backfill(), known.ReemitTags: s.ReemitTags()},
			Dangling: s.ReferrersLeft(),
		},
	}
}

func usage(format string, args ...any) error {
	return &verdict.UsageError{Err: fmt.Errorf("cleaning up: "+format, args...)}
}

// ours verifies a bundle, and reports whether an identity of the policy signed it
// about these bytes. A bundle that does not verify is not ours.
func (s *Sweeps) ours(bundle []byte, of digest.Digest) (verify.Evidence, bool) {
	e, err := s.c.Verifier.Attestation(bundle)
	return e, err == nil && s.by(e, of)
}

func (s *Sweeps) by(e verify.Evidence, of digest.Digest) bool {
	_, err := s.c.Policy.Acts(e, policy.Question{Stage: policy.Published, Class: plan.Image, Subject: of.String()})
	return err == nil && e.CoversBytes(of)
}

// visit runs a task for one image, or counts, and adds what remains to the tally.
type visit func(ctx context.Context, p *place, image registry.Descriptor, t *tally) error

// How much is done at the same time.
const (
	placesAtOnce = 4
	imagesAtOnce = 8
)

// sweep is a task that visits every image in the scope.
type sweep struct {
	*Sweeps
	visit visit
	did   string // message when nothing remains
}

// Sweep implements [reconcile.Sweep].
func (w sweep) Sweep(ctx context.Context, about reconcile.Work) (feature.Outcome, error) {
	t := &tally{}
	places, err := w.places(about.Scope)
	if err != nil {
		return feature.Outcome{}, err
	}
	if err := w.each(ctx, places, t, func(ctx context.Context, p *place) error { return p.eachImage(ctx, t, w.visit) }); err != nil {
		return feature.Outcome{}, err
	}
	if found := t.found(); found.Count > 0 {
		return feature.Outcome{Remaining: found.Count, Message: fmt.Sprintf("%d remain", found.Count), Names: t.names}, nil
	}
	return feature.Outcome{Done: true, Message: fmt.Sprintf("%s in %s", w.did, plural.Of(len(places), "repository"))}, nil
}

// counter counts in every image in the scope, and in every repository as a whole.
type counter struct {
	*Sweeps
	visit visit
	whole func(p *place, t *tally) // nil: nothing
}

// Count implements [reconcile.Counter]. A repository that cannot be read is an
// error: the count is then unknown.
func (c counter) Count(ctx context.Context, about reconcile.Work) (reconcile.Found, error) {
	t := &tally{}
	places, err := c.places(about.Scope)
	if err != nil {
		return reconcile.Found{}, err
	}
	err = c.each(ctx, places, nil, func(ctx context.Context, p *place) error {
		if c.whole != nil {
			c.whole(p, t)
		}
		return p.eachImage(ctx, t, c.visit)
	})
	return t.found(), err
}

// places are the public repositories in a scope. A part of the scope without any is
// refused: a misspelt part would be reported as done.
func (s *Sweeps) places(scope feature.Scope) ([]string, error) {
	covered, without := feature.Select(scope, s.c.Repositories)
	switch {
	case len(covered) == 0:
		return nil, usage("no public repository is in the scope; list the repositories under public in FEATURES.yaml")
	case len(without) > 0:
		return nil, usage("no public repository is at or below %q in the scope; check its spelling, or leave it out until there is one", without[0])
	}
	return covered, nil
}

// each visits repositories. An error in one does not stop the others. A manifest that
// cannot be read is added to remains; without remains it is an error.
func (s *Sweeps) each(ctx context.Context, places []string, remains *tally, do func(context.Context, *place) error) error {
	var opened atonce.Memo[*registry.Remote] // by their host
	failed := make([]error, len(places))
	atonce.Each(placesAtOnce, places, func(i int, name string) {
		host, path, _ := strings.Cut(name, "/")
		at, err := opened.Get(host, func() (*registry.Remote, error) { return s.c.Open(host) })
		p := &place{Sweeps: s, name: name, at: at, path: path}
		if err == nil {
			err = p.list(ctx)
		}
		if err == nil {
			err = do(ctx, p)
		}
		if err == nil {
			err = p.told(remains)
		}
		if err != nil {
			failed[i] = fmt.Errorf("%s: %w", name, err)
		}
	})
	return errors.Join(failed...)
}

// tally counts, and remembers some of the names.
type tally struct {
	mu    sync.Mutex // owns the rest
	count int
	names []string
}

// How many names a tally keeps, and how many it reports.
const (
	remembered = 1000
	told       = 10
)

func (t *tally) add(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count++; len(t.names) < remembered {
		t.names = append(t.names, fmt.Sprintf(format, args...))
	}
}

func (t *tally) found() reconcile.Found {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.Sort(t.names)
	return reconcile.Found{Count: t.count, Sample: t.names[:min(told, len(t.names))]}
}
