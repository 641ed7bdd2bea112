// Package componentbase has a program's feature gates report who uses which feature,
// and with which value.
//
// A [Gate] is a layer over a [featuregate.MutableVersionedFeatureGate] and one
// itself: it takes the place of the one that a program has, and nothing else
// changes. What is asked is noted. It needs no store when it is made, because
// that is before flags are read; who has one later says so with
// [Gate.InitReporter].
//
//	gate := componentbase.New(featuregate.NewFeatureGate())
//	… // features are added, flags are read
//	if gate.Enabled("RequireProvenance") { … }
//	…
//	gate.InitReporter(componentbase.Reporter{Store: s, Namespace: "waybill", Identity: "promoter", Version: v})
//	defer gate.Report(ctx) // a job reports once, a service runs gate.Run
//
// [Gate.Enabled] waits for nothing and writes nothing. Reports are made of what
// was noted until then, one write for each feature at most, and a store that
// does not answer costs the program nothing but the report.
package componentbase

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/component-base/featuregate"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Gate is a feature gate that notes what it is asked.
type Gate struct {
	featuregate.MutableVersionedFeatureGate

	// asked has an answer (bool) for each feature and value that was found, by
	// [answer]. It never has more entries than twice the known features.
	asked sync.Map

	mu       sync.Mutex // owns the rest, and is never held while something is asked
	reporter *Reporter
	followed map[featuregate.Feature]bool
}

// answer is what was found once.
type answer struct {
	feature featuregate.Feature
	value   bool
}

// New is a layer over a gate. Both give the same answers; only what is asked of
// the layer is noted.
func New(inner featuregate.MutableVersionedFeatureGate) *Gate {
	return &Gate{MutableVersionedFeatureGate: inner, followed: map[featuregate.Feature]bool{}}
}

// Enabled is whether a feature is enabled, and notes that somebody asked. It
// panics on a feature that nobody added, as every gate does.
func (g *Gate) Enabled(key featuregate.Feature) bool {
	value := g.MutableVersionedFeatureGate.Enabled(key)
	found := answer{key, value}
	if _, noted := g.asked.Load(found); !noted { // reading costs no lock
		g.asked.Store(found, true)
	}
	return value
}

// DeepCopy is a copy that reports to nobody: it is there to be tried out.
func (g *Gate) DeepCopy() featuregate.MutableVersionedFeatureGate {
	return New(g.MutableVersionedFeatureGate.DeepCopy())
}

// DeepCopyAndReset is a copy without what was set, that reports to nobody.
func (g *Gate) DeepCopyAndReset() featuregate.MutableVersionedFeatureGate {
	return New(g.MutableVersionedFeatureGate.DeepCopyAndReset())
}

// Reporter says where to report, and as whom.
type Reporter struct {
	Store featurestore.Store
	// Namespace is that of the features of this gate.
	Namespace string
	// Identity names the place that the program runs in: all its runs have the
	// same, for a reconciler waits for it by this name.
	Identity string
	Version  version.Version // of the program
	// Clock is the time. Default [time.Now].
	Clock func() time.Time
}

// InitReporter says to whom to report. What was asked before is not lost.
func (g *Gate) InitReporter(r Reporter) error {
	if r.Store == nil || r.Namespace == "" || r.Identity == "" || r.Version.IsZero() {
		return &verdict.UsageError{Err: errors.New("reporting features: want a store, a namespace, an identity and a version")}
	}
	if r.Clock == nil {
		r.Clock = time.Now
	}
	r.Store = featurestore.ForReporters(r.Store)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reporter != nil {
		return &verdict.UsageError{Err: errors.New("reporting features: there is a reporter already")}
	}
	g.reporter = &r
	return nil
}

// attempts is how often a report is written again that another write overtook.
const attempts = 8

// Report writes what the known features of the gate are, and whether they were
// asked for. Features that no reconciler has announced are passed over. It
// reports all that it can: the error names the rest.
func (g *Gate) Report(ctx context.Context) error {
	r, err := g.to()
	if err != nil {
		return err
	}
	var failed []error
	for _, name := range g.known() {
		if err := r.write(ctx, name, g.uses(r, name)); err != nil {
			failed = append(failed, fmt.Errorf("reporting feature %s: %w", name, err))
		}
	}
	return errors.Join(failed...)
}

// Run reports at once and then in regular intervals, until the context ends, and
// then once more. What goes wrong is told to failed, and tried again the next
// time.
func (g *Gate) Run(ctx context.Context, every time.Duration, failed func(error)) error {
	if every <= 0 || failed == nil {
		return &verdict.UsageError{Err: errors.New("reporting features: want an interval, and somebody to tell what goes wrong")}
	}
	if _, err := g.to(); err != nil {
		return err
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := g.Report(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return g.reportLast(ctx)
		}
	}
}

// reportLast reports although the context has ended.
func (g *Gate) reportLast(ctx context.Context) error {
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), parting)
	defer end()
	return g.Report(ctx)
}

// parting is how long the last report may take.
const parting = 10 * time.Second

// to is who is reported to.
func (g *Gate) to() (Reporter, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reporter == nil {
		return Reporter{}, &verdict.UsageError{Err: errors.New("reporting features: no reporter was set")}
	}
	return *g.reporter, nil
}

// known lists the features of the gate, without the switches for all of a stage.
func (g *Gate) known() []featuregate.Feature {
	var list []featuregate.Feature
	for name := range g.GetAllVersioned() {
		if name != "AllAlpha" && name != "AllBeta" {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// uses is what is reported of one feature: every value that was found, and if
// none was asked for, the one that would have been.
func (g *Gate) uses(r Reporter, name featuregate.Feature) []feature.Use {
	now := g.MutableVersionedFeatureGate.Enabled(name)
	_, checked := g.asked.Load(answer{name, now})
	use := feature.Use{Identity: r.Identity, Version: r.Version.String(), Checked: checked, Value: now, LastSeen: r.Clock()}
	if _, other := g.asked.LoadAndDelete(answer{name, !now}); !other {
		return []feature.Use{use}
	}
	before := use // it was so a while ago, and is said once
	before.Checked, before.Value = true, !now
	return []feature.Use{use, before}
}

// write writes uses into one object, over whatever others write meanwhile.
func (r Reporter) write(ctx context.Context, name featuregate.Feature, uses []feature.Use) (err error) {
	k := feature.Key{Namespace: r.Namespace, Name: string(name)}
	for range attempts {
		f, read := r.Store.Get(ctx, k)
		if errors.Is(read, featurestore.ErrNotFound) {
			return nil // nobody switches it
		}
		if read != nil {
			return read
		}
		if f, err = feature.Report(f, uses...); err != nil {
			return err
		}
		if _, err = r.Store.Update(ctx, f); !errors.Is(err, featurestore.ErrConflict) {
			return err
		}
	}
	return &verdict.UnavailableError{Place: k.String(), Op: "reporting", Err: fmt.Errorf("others write it without a pause: %w", err)}
}

// Follow sets features to what is wanted of them in the store: for programs
// that leave the decision to it, for the features that are named. What a flag
// sets explicitly stays, and the report says so. A feature that was not
// announced keeps its default. Calling it again follows what has changed.
func (g *Gate) Follow(ctx context.Context, names ...featuregate.Feature) error {
	r, err := g.to()
	if err != nil {
		return err
	}
	for _, name := range names {
		f, err := r.Store.Get(ctx, feature.Key{Namespace: r.Namespace, Name: string(name)})
		if errors.Is(err, featurestore.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("following feature %s: %w", name, err)
		}
		if err := g.set(name, f.Wants()); err != nil {
			return err
		}
	}
	return nil
}

func (g *Gate) set(name featuregate.Feature, want feature.State) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ExplicitlySet(name) && !g.followed[name] {
		return nil
	}
	if err := g.SetFromMap(map[string]bool{string(name): want == feature.On}); err != nil {
		return fmt.Errorf("following feature %s: %w", name, err)
	}
	g.followed[name] = true
	return nil
}

// Line is one line of what a program says about its gates.
type Line struct {
	Name    string `json:"name"`
	Stage   string `json:"stage"`
	Enabled bool   `json:"enabled"`
	Checked bool   `json:"checked"`
}

// Lines lists the known features as they are, without noting that it asked: for
// a page that shows them, and for metrics.
func (g *Gate) Lines() []Line {
	var list []Line
	specs := g.GetAll()
	for _, name := range g.known() {
		value := g.MutableVersionedFeatureGate.Enabled(name)
		_, checked := g.asked.Load(answer{name, value})
		stage := strings.ToLower(fmt.Sprint(specs[name].PreRelease))
		if stage == "" {
			stage = string(feature.GA)
		}
		list = append(list, Line{Name: string(name), Stage: stage, Enabled: value, Checked: checked})
	}
	return list
}
