// Package cleanup does, over public repositories, what is to be done when a
// feature of Waybill is switched that left something there: trace annotations
// are stripped, summaries that somebody goes by are counted, and evidence is
// attached in the form that is to be read.
//
//	s, err := cleanup.New(cleanup.Config{Repositories: public, Open: open, Verifier: v, Policy: p})
//	…
//	deeds := s.Deeds() // of TraceAnnotations, EmitVSA and BundleReferrers
//
// Four rules hold for everything here:
//
//   - A repository that is not public, or not in the scope of the feature, is
//     never written.
//   - Evidence can be found at any moment, whoever stops whenever: what takes the
//     place of something is written, and found to be listed, before the other
//     goes. What is done twice, or by two at once, is done once.
//   - What is not ours is left alone: ours is what an identity of the policy
//     signed of this very image. Anybody can attach anything, so nobody's
//     annotations decide that.
//   - What cannot be done is named and remains; nothing is given up in silence.
//
// Registries write tags without conditions, and where there is no interface for
// referrers their list is a tag. Another program that writes the same list in
// the same moment can lose an entry of it; ours are looked for afterwards and
// listed again.
package cleanup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

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

// Config is what sweeps need of the world.
type Config struct {
	// Repositories are the public ones, each HOST/PATH.
	Repositories []string
	// Open opens the registry of a host. It is asked once for each in a pass.
	Open func(host string) (*registry.Remote, error)
	// Verifier proves evidence, and the Policy says whose is ours.
	Verifier *verify.Verifier
	Policy   policy.Policy
	// Finder completes signatures in legacy forms that carry no log entry.
	Finder rekorv1.Finder
	// Validity is how long a summary counts of which the policy says nothing.
	// Default: as long as the oldest of which it says something, or 90 days.
	Validity time.Duration
	// Clock is the time. Default [time.Now].
	Clock func() time.Time
}

// Sweeps makes the tasks. It keeps nothing between two passes.
type Sweeps struct{ c Config }

// New refuses a configuration by which nothing could be told from anything.
func New(c Config) (*Sweeps, error) {
	if c.Open == nil || c.Verifier == nil || c.Policy.Digest().IsZero() {
		return nil, usage("want a way to registries, a verifier and a policy")
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

// Deeds are those of the features that leave something in registries.
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
	return &verdict.UsageError{Err: fmt.Errorf("sweeping: "+format, args...)}
}

// ours proves a bundle, and answers whether an identity that the policy lets act
// signed it of these bytes. What cannot be proven is somebody else's.
func (s *Sweeps) ours(bundle []byte, of digest.Digest) (verify.Evidence, bool) {
	e, err := s.c.Verifier.Attestation(bundle)
	return e, err == nil && s.by(e, of)
}

func (s *Sweeps) by(e verify.Evidence, of digest.Digest) bool {
	_, err := s.c.Policy.Acts(e, policy.Question{Stage: policy.Published, Class: plan.Image, Subject: of.String()})
	return err == nil && e.CoversBytes(of)
}

// visit does what is to be done about one image, or counts what is to be
// counted, and writes down what remains.
type visit func(ctx context.Context, p *place, image registry.Descriptor, t *tally) error

// How much is done at the same time.
const (
	placesAtOnce = 4
	imagesAtOnce = 8
)

// sweep makes a task of a visit to every image in the scope.
type sweep struct {
	*Sweeps
	visit visit
	did   string // in words, when nothing remains
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

// counter counts by a visit to every image in the scope, and by a look at every
// repository as a whole.
type counter struct {
	*Sweeps
	visit visit
	whole func(p *place, t *tally) // nil: nothing
}

// Count implements [reconcile.Counter]. What cannot be read leaves the count
// unknown.
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

// places are the public repositories in a scope. A part of the scope without
// any is refused: what is done over less than was meant looks as if it were done.
func (s *Sweeps) places(scope feature.Scope) ([]string, error) {
	covered, without := feature.Select(scope, s.c.Repositories)
	switch {
	case len(covered) == 0:
		return nil, usage("no public repository is in the scope: name those that are public in the file that configures features")
	case len(without) > 0:
		return nil, usage("no public repository is at or beneath %q of the scope: look at its spelling, or leave it out until there is one", without[0])
	}
	return covered, nil
}

// each looks at repositories. What goes wrong with one keeps none of the others.
// What cannot be read in one remains where something can, else it is an error.
func (s *Sweeps) each(ctx context.Context, places []string, remains *tally, do func(context.Context, *place) error) error {
	o := opener{Sweeps: s, opened: map[string]*registry.Remote{}}
	failed := make([]error, len(places))
	var group errgroup.Group
	group.SetLimit(placesAtOnce)
	for i, name := range places {
		group.Go(func() error {
			p, err := o.place(ctx, name)
			if err == nil {
				err = do(ctx, p)
			}
			if err == nil {
				err = p.told(remains)
			}
			if err != nil {
				failed[i] = fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	_ = group.Wait() // each wrote its error down
	return errors.Join(failed...)
}

// opener opens each registry once in a pass.
type opener struct {
	*Sweeps

	mu     sync.Mutex // owns opened
	opened map[string]*registry.Remote
}

func (o *opener) place(ctx context.Context, name string) (*place, error) {
	host, path, _ := strings.Cut(name, "/")
	o.mu.Lock()
	at, err := o.opened[host], error(nil)
	if at == nil {
		if at, err = o.c.Open(host); err == nil {
			o.opened[host] = at
		}
	}
	o.mu.Unlock()
	if err != nil {
		return nil, err
	}
	p := &place{Sweeps: o.Sweeps, name: name, at: at, path: path}
	return p, p.list(ctx)
}

// tally counts, and remembers some of the names.
type tally struct {
	mu    sync.Mutex // owns the rest
	count int
	names []string
}

// How many names are remembered, and told.
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
