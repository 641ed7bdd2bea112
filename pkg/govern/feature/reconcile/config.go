// Package reconcile brings features to their desired state.
//
// Only a [Reconciler] writes states and tasks. [Reconciler.Once] makes one pass: it
// announces the features that the program knows, starts wanted transitions, and runs at
// most one task of each feature. Tasks are idempotent, and every write names the version
// that it replaces, so a pass can be interrupted anywhere, repeated, and made by several
// programs at once.
//
//	r, err := reconcile.New(reconcile.Config{Store: s, Registry: known, Deeds: deeds, …})
//	…
//	report, err := r.Once(ctx) // by a timer, or in a loop
//
// The author of a feature implements its tasks: a [Sweep] for each task that cleans up or
// audits, a [Counter] for each that holds, and one that counts what still refers to the
// feature when it is off. Package feature decides when a state changes; this package
// only does the input and output for that.
//
// Every transition gets a signed statement. The transition is written first, without the
// name of its statement, and nothing else happens to the feature until it is signed: a
// crash in between loses no statement, and can at most sign the same one twice. The store
// itself is not trusted: a transition without a statement is signed only if it is exactly
// the one that would be made now from the last signed state. Any other is reverted.
//
// Other projects should not import this package: it changes without notice.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Work is the input of a task.
type Work struct {
	Key    feature.Key
	State  feature.State
	Scope  feature.Scope
	Params map[string]string
}

// Sweep visits everything in a scope, to clean up or audit. It does as much as it can,
// and reports what remains, for the next pass. It must be idempotent.
type Sweep interface {
	Sweep(ctx context.Context, w Work) (feature.Outcome, error)
}

// Counter counts objects, and changes nothing.
type Counter interface {
	Count(ctx context.Context, w Work) (Found, error)
}

// Found is the result of a [Counter]: how many, and some of their names.
type Found struct {
	Count  int
	Sample []string
}

// Nothing is the counter of a feature that leaves no objects behind.
type Nothing struct{}

// Count implements [Counter].
func (Nothing) Count(context.Context, Work) (Found, error) { return Found{}, nil }

// Deeds are the implementations of the tasks of a feature, by name.
type Deeds struct {
	Sweeps map[string]Sweep
	Holds  map[string]Counter
	// Dangling counts what still refers to the feature when it is off.
	Dangling Counter
}

// Signer signs the statements about transitions, and stores them.
type Signer interface {
	// Ready refuses a signer that the policy does not allow. A pass calls it before
	// anything else.
	Ready(ctx context.Context) error
	// Sign signs and stores a statement, and returns the name of its bundle. It is
	// idempotent.
	Sign(ctx context.Context, name string, s intoto.Statement) (string, error)
}

// Statements lists signed statements.
type Statements interface {
	// Signed lists the statements, for a pass.
	Signed(ctx context.Context) (Signed, error)
}

// Signed are the statements that were listed.
type Signed interface {
	// Last reads the last one about a feature. One that does not verify is an
	// error.
	Last(ctx context.Context, k feature.Key) (feature.LastSigned, error)
	// Has reports whether there is one about this transition of a feature.
	Has(k feature.Key, number int) bool
}

// Live lists the reconcilers that are running now.
type Live interface {
	Identities(ctx context.Context) ([]string, error)
}

// Reporter is a place where programs run that use features, with the longest time
// between two runs.
type Reporter struct {
	Identity string
	Every    time.Duration
}

// Expect has the reporters of one namespace.
type Expect struct {
	Reporters []Reporter
	// Window is the time that each has to report. Default: twice the longest time
	// between two runs.
	Window time.Duration
}

// window is at least the longest time between two runs: a reporter could not report
// within a shorter one.
func (e Expect) window() (time.Duration, error) {
	longest := time.Duration(0)
	for _, r := range e.Reporters {
		if r.Identity == "" || r.Every <= 0 {
			return 0, fmt.Errorf("reporter %q every %s: want a name, and the longest time between two runs", r.Identity, r.Every)
		}
		longest = max(longest, r.Every)
	}
	switch {
	case longest == 0:
		return 0, errors.New("no reporter is expected, so no report would be waited for")
	case e.Window == 0:
		return 2 * longest, nil
	case e.Window < longest:
		return 0, fmt.Errorf("the window of %s is shorter than the %s between two runs of a reporter", e.Window, longest)
	}
	return e.Window, nil
}

// Wishes are the desired states in the reviewed configuration.
type Wishes struct {
	// Wanted has desired states; other features have their default.
	Wanted map[feature.Key]feature.Wanted
	// Dynamic are the features whose desired state may be set in the store, if their
	// definition allows it.
	Dynamic []feature.Key
}

// Self describes this reconciler.
type Self struct {
	Identity string
	Version  version.Version // of the program
	// Live lists the other reconcilers. Default: none, so this one works on every
	// feature.
	Live Live
	// Statements lists what was signed, to restore features that the store lost or
	// has in an older state. Default: the store is trusted.
	Statements Statements
	// Tidy is called in each pass, to remove temporary files of killed programs.
	// Default: nothing is removed.
	Tidy func(now time.Time)
	// Trace returns the trace of a transition. Default: none.
	Trace func(context.Context) *feature.Trace
}

// Config configures a [Reconciler].
type Config struct {
	Store    featurestore.Store
	Registry feature.Registry
	Deeds    map[feature.Key]Deeds
	// Expect has the reporters, by namespace.
	Expect map[string]Expect
	Wishes Wishes
	Self   Self
	Signer Signer
	// Clock is the time. Default [time.Now].
	Clock func() time.Time
}

// Reconciler reconciles features. It has no state between two passes.
type Reconciler struct {
	c       Config
	windows map[string]time.Duration
}

// New refuses a configuration in which a feature could never be switched.
func New(c Config) (*Reconciler, error) {
	if c.Store == nil || c.Signer == nil || c.Self.Identity == "" || c.Self.Version.IsZero() || len(c.Registry.Keys()) == 0 {
		return nil, usage("want a store, a registry, a signer, an identity and a version")
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	r := &Reconciler{c: c, windows: map[string]time.Duration{}}
	for _, k := range c.Registry.Keys() {
		window, err := c.Expect[k.Namespace].window()
		if err != nil {
			return nil, usage("namespace %s: %w", k.Namespace, err)
		}
		r.windows[k.Namespace] = window
		if err := c.checkTasks(k); err != nil {
			return nil, usage("feature %s: %w", k, err)
		}
	}
	for k := range c.Wishes.Wanted {
		if _, known := c.Registry.Definition(k); !known {
			return nil, usage("feature %s is configured, but unknown", k)
		}
	}
	for _, k := range c.Wishes.Dynamic {
		if d, known := c.Registry.Definition(k); !known || !d.Dynamic {
			return nil, usage("feature %s cannot be dynamic: its definition does not allow it", k)
		}
	}
	return r, nil
}

// checkTasks refuses a feature with a task that is not implemented.
func (c Config) checkTasks(k feature.Key) error {
	d, _ := c.Registry.Definition(k)
	deeds := c.Deeds[k]
	if deeds.Dangling == nil {
		return errors.New("no Dangling was given: it counts the objects that refer to the feature; use Nothing if there are none")
	}
	for _, j := range d.Jobs() {
		if j.Kind == feature.Sweep && deeds.Sweeps[j.Name] == nil || j.Kind == feature.Hold && deeds.Holds[j.Name] == nil {
			return fmt.Errorf("task %s is not implemented", j.Name)
		}
	}
	return nil
}

func usage(format string, args ...any) error {
	return &verdict.UsageError{Err: fmt.Errorf("reconciling features: "+format, args...)}
}
