// Package componentbase makes a program's feature gates report which features it
// uses, and with which value.
//
// A [Gate] wraps a [featuregate.MutableVersionedFeatureGate] and is one itself: it
// replaces the gate of a program without other changes, and records which features
// are queried. It needs no store when it is made, because that is before flags are
// read; [Gate.InitReporter] sets the store later.
//
//	gate := componentbase.New(featuregate.NewFeatureGate())
//	… // features are added, flags are read
//	if gate.Enabled("RequireProvenance") { … }
//	…
//	gate.InitReporter(componentbase.Reporter{Store: s, Namespace: "waybill", Identity: "promoter", Version: v})
//	defer gate.Report(ctx) // a job reports once, a service again and again
//
// [Gate.Enabled] does not block or write. A report contains everything recorded so
// far, with at most one write per feature. If the store does not answer, only the
// report is lost.
//
// Other projects should not import this package: it changes without notice.
package componentbase

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/featuregate"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Gate is a feature gate that records which features are queried.
type Gate struct {
	featuregate.MutableVersionedFeatureGate

	// asked has an answer (bool) for each feature and value that was found, by
	// [answer]. It never has more entries than twice the known features.
	asked sync.Map

	mu       sync.Mutex // owns the rest, and is never held by Enabled
	reporter *Reporter
	followed map[featuregate.Feature]bool
}

// answer is a feature with a value that a query returned.
type answer struct {
	feature featuregate.Feature
	value   bool
}

// New wraps a gate. Both give the same answers; only queries of the wrapper are
// recorded.
func New(inner featuregate.MutableVersionedFeatureGate) *Gate {
	return &Gate{MutableVersionedFeatureGate: inner, followed: map[featuregate.Feature]bool{}}
}

// Enabled reports whether a feature is enabled, and records the query. It panics on
// a feature that was not added, as every gate does.
func (g *Gate) Enabled(key featuregate.Feature) bool {
	value := g.MutableVersionedFeatureGate.Enabled(key)
	found := answer{key, value}
	if _, noted := g.asked.Load(found); !noted { // reading costs no lock
		g.asked.Store(found, true)
	}
	return value
}

// DeepCopy is a copy without a reporter.
func (g *Gate) DeepCopy() featuregate.MutableVersionedFeatureGate {
	return New(g.MutableVersionedFeatureGate.DeepCopy())
}

// DeepCopyAndReset is a copy without the values that were set, and without a
// reporter.
func (g *Gate) DeepCopyAndReset() featuregate.MutableVersionedFeatureGate {
	return New(g.MutableVersionedFeatureGate.DeepCopyAndReset())
}

// Reporter says where to report, and under which name.
type Reporter struct {
	Store featurestore.Store
	// Namespace is that of the features of this gate.
	Namespace string
	// Identity names the place that the program runs in. All runs there use the
	// same name: the reconciler waits for it.
	Identity string
	Version  version.Version // of the program
	// Clock is the time. Default [time.Now].
	Clock func() time.Time
}

// InitReporter sets the reporter. Earlier queries are included in reports.
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
		return &verdict.UsageError{Err: errors.New("reporting features: the reporter was already set")}
	}
	g.reporter = &r
	return nil
}

// attempts is how often a report is written again after a conflicting write.
const attempts = 8

// Report writes the values of the known features, and whether they were queried.
// Features that are not announced are skipped. It reports all that it can; the error
// names the rest.
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

func (g *Gate) to() (Reporter, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reporter == nil {
		return Reporter{}, &verdict.UsageError{Err: errors.New("reporting features: no reporter was set")}
	}
	return *g.reporter, nil
}

// known lists the features of the gate, without AllAlpha and AllBeta.
func (g *Gate) known() (list []featuregate.Feature) {
	for name := range g.GetAllVersioned() {
		if name != "AllAlpha" && name != "AllBeta" {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// uses are the reports of one feature: every value that a query returned, or the
// current value if it was not queried.
func (g *Gate) uses(r Reporter, name featuregate.Feature) []feature.Use {
	now := g.MutableVersionedFeatureGate.Enabled(name)
	_, checked := g.asked.Load(answer{name, now})
	use := feature.Use{Identity: r.Identity, Version: r.Version.String(), Checked: checked, Value: now, LastSeen: r.Clock()}
	if _, other := g.asked.LoadAndDelete(answer{name, !now}); !other {
		return []feature.Use{use}
	}
	before := use // an earlier value is reported once
	before.Checked, before.Value = true, !now
	return []feature.Use{use, before}
}

// write adds uses to one object, and retries after conflicting writes.
func (r Reporter) write(ctx context.Context, name featuregate.Feature, uses []feature.Use) (err error) {
	k := feature.Key{Namespace: r.Namespace, Name: string(name)}
	for range attempts {
		f, read := r.Store.Get(ctx, k)
		if errors.Is(read, featurestore.ErrNotFound) {
			return nil // not announced
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
	return &verdict.UnavailableError{Place: k.String(), Op: "reporting", Err: fmt.Errorf("other programs keep writing it: %w", err)}
}

// Follow sets the named features to their desired state in the store. A feature that
// a flag sets keeps that value, which is reported. A feature that is not announced
// keeps its default. Call it again to follow changes.
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

// Line describes one feature of a gate.
type Line struct {
	Name    string `json:"name"`
	Stage   string `json:"stage"`
	Enabled bool   `json:"enabled"`
	Checked bool   `json:"checked"`
}

// Lines lists the known features without recording a query, for status pages and
// metrics.
func (g *Gate) Lines() (list []Line) {
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

// Add adds the features of one namespace to a gate, as the registry defines them.
func Add(to featuregate.MutableVersionedFeatureGate, r feature.Registry, namespace string) error {
	specs := map[featuregate.Feature]featuregate.VersionedSpecs{}
	for _, k := range r.Keys() {
		if k.Namespace != namespace {
			continue
		}
		d, _ := r.Definition(k)
		name := featuregate.Feature(k.Name)
		for _, v := range d.Versions {
			since, err := utilversion.Parse(fmt.Sprintf("%d.%d", v.Since.Major(), v.Since.Minor()))
			if err != nil {
				return fmt.Errorf("adding feature %s: %w", k, err)
			}
			spec := featuregate.FeatureSpec{Version: since, Default: v.Default == feature.On}
			switch {
			case v.Removed:
				spec.PreRelease, spec.LockToDefault = featuregate.Deprecated, true
			case v.Stage == feature.Alpha:
				spec.PreRelease = featuregate.Alpha
			case v.Stage == feature.Beta:
				spec.PreRelease = featuregate.Beta
			case v.Stage == feature.Deprecated:
				spec.PreRelease = featuregate.Deprecated
			default:
				spec.PreRelease = featuregate.GA
			}
			specs[name] = append(specs[name], spec)
		}
	}
	if len(specs) == 0 {
		return fmt.Errorf("adding features: namespace %q has no features", namespace)
	}
	return to.AddVersioned(specs)
}

// At makes an empty gate for a program of this version.
func At(major, minor int) (*Gate, error) {
	v, err := utilversion.Parse(fmt.Sprintf("%d.%d", major, minor))
	if err != nil {
		return nil, fmt.Errorf("making feature gates: %w", err)
	}
	return New(featuregate.NewVersionedFeatureGate(v)), nil
}
