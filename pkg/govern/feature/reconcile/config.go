// Package reconcile brings features from the state that they are in to the one
// that is wanted.
//
// A [Reconciler] is the only one that writes states and tasks. [Reconciler.Once]
// makes one pass: it announces what the program knows, starts the transitions
// that are wanted, and runs at most one task of each feature. Every task is
// idempotent and every write is tied to what was read, so a pass can end
// anywhere, be made by several programs at once, and be made again.
//
//	r, err := reconcile.New(reconcile.Config{Store: s, Registry: known, Deeds: deeds, …})
//	…
//	report, err := r.Once(ctx) // by a timer, or in a loop
//
// What a feature has to do is brought by its author: a [Sweep] for each task that
// mends or audits, a [Counter] for each that holds, and one that counts what
// still refers to the feature when it is off. When a state may change is decided
// by package feature, and here is nothing but what that needs of the world.
//
// About every transition a statement is signed. The transition is written first,
// with a place for the statement, and nothing else happens to the feature until
// it is there; so a crash between the two loses none, and can only sign the same
// words twice. Nobody signed what is stored: a transition that is found there
// without a statement is signed only if it is the one that would be made now of
// the last that was signed. Any other is taken back.
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

// Work is what a task is about.
type Work struct {
	Key    feature.Key
	State  feature.State
	Scope  feature.Scope
	Params map[string]string
}

// Sweep visits everything in a scope, and mends or audits it. It does as much as
// it can, and says what remains: that is tried again in the next pass. One that
// was done and is done again changes nothing.
type Sweep interface {
	Sweep(ctx context.Context, w Work) (feature.Outcome, error)
}

// Counter counts what is there, and removes nothing.
type Counter interface {
	Count(ctx context.Context, w Work) (Found, error)
}

// Found is what a [Counter] found: how many, and some of them by name.
type Found struct {
	Count  int
	Sample []string
}

// Nothing is the counter of a feature that leaves nothing behind.
type Nothing struct{}

// Count implements [Counter].
func (Nothing) Count(context.Context, Work) (Found, error) { return Found{}, nil }

// Deeds are what a feature brings along, by the names of its tasks.
type Deeds struct {
	Sweeps map[string]Sweep
	Holds  map[string]Counter
	// Dangling counts what still refers to the feature when it is off.
	Dangling Counter
}

// Signer signs the statements about transitions, and keeps them.
type Signer interface {
	// Ready finds out who will sign, and refuses somebody who may not. A pass asks
	// before it does anything else.
	Ready(ctx context.Context) error
	// Sign signs a statement, and answers where it is: the same for the same name,
	// however often it is asked.
	Sign(ctx context.Context, name string, s intoto.Statement) (string, error)
}

// Statements tells what was signed.
type Statements interface {
	// Signed lists what is there, for a pass.
	Signed(ctx context.Context) (Signed, error)
}

// Signed are the statements that were there when they were listed.
type Signed interface {
	// Last reads the last one about a feature. What is there and does not hold is
	// an error.
	Last(ctx context.Context, k feature.Key) (feature.LastSigned, error)
	// Has reports whether there is one about this transition of a feature.
	Has(k feature.Key, number int) bool
}

// Live tells who else reconciles the same features just now.
type Live interface {
	Identities(ctx context.Context) ([]string, error)
}

// Reporter is a place in which programs run that use features, and the longest
// time between two runs of it.
type Reporter struct {
	Identity string
	Every    time.Duration
}

// Expect is who uses the features of one namespace.
type Expect struct {
	Reporters []Reporter
	// Window is how long each has time to run. Default: twice the longest time
	// between two runs of one.
	Window time.Duration
}

// window is at least the longest time between two runs: a shorter one would
// wait for what cannot come.
func (e Expect) window() (time.Duration, error) {
	longest := time.Duration(0)
	for _, r := range e.Reporters {
		if r.Identity == "" || r.Every <= 0 {
			return 0, fmt.Errorf("reporter %q every %s: want who, and the longest time between two runs", r.Identity, r.Every)
		}
		longest = max(longest, r.Every)
	}
	switch {
	case longest == 0:
		return 0, errors.New("no reporter is expected: a wait for nobody proves nothing")
	case e.Window == 0:
		return 2 * longest, nil
	case e.Window < longest:
		return 0, fmt.Errorf("the window of %s is shorter than the %s between two runs of a reporter", e.Window, longest)
	}
	return e.Window, nil
}

// Wishes is the reviewed configuration of what is wanted.
type Wishes struct {
	// Wanted is what is wanted of features; of others, their default.
	Wanted map[feature.Key]feature.Wanted
	// Dynamic are the features of which the store may say what is wanted, if
	// their definition lets it.
	Dynamic []feature.Key
}

// Self is who reconciles.
type Self struct {
	Identity string
	Version  version.Version // of the program
	// Live tells who else does. Default: nobody is asked, and all is done.
	Live Live
	// Statements tells what was signed, by which a store is mended that lost a
	// feature or has an older one. Default: the store is believed.
	Statements Statements
	// Tidy is done in each pass, for what programs that were killed left where the
	// features are. Default: nothing is done.
	Tidy func(now time.Time)
	// Trace is the run that a transition belongs to. Default: none is told.
	Trace func(context.Context) *feature.Trace
}

// Config is all that a [Reconciler] needs.
type Config struct {
	Store    featurestore.Store
	Registry feature.Registry
	Deeds    map[feature.Key]Deeds
	// Expect is who uses the features, by namespace.
	Expect map[string]Expect
	Wishes Wishes
	Self   Self
	Signer Signer
	// Clock is the time. Default [time.Now].
	Clock func() time.Time
}

// Reconciler reconciles features. It keeps nothing between two passes.
type Reconciler struct {
	c       Config
	windows map[string]time.Duration
}

// New refuses a configuration with which some feature could never be switched.
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
		if err := c.able(k); err != nil {
			return nil, usage("feature %s: %w", k, err)
		}
	}
	for k := range c.Wishes.Wanted {
		if _, known := c.Registry.Definition(k); !known {
			return nil, usage("feature %s is wanted, and not known", k)
		}
	}
	for _, k := range c.Wishes.Dynamic {
		if d, known := c.Registry.Definition(k); !known || !d.Dynamic {
			return nil, usage("feature %s cannot be dynamic: its definition does not let it", k)
		}
	}
	return r, nil
}

// able refuses a feature that names tasks which nobody can do.
func (c Config) able(k feature.Key) error {
	d, _ := c.Registry.Definition(k)
	deeds := c.Deeds[k]
	if deeds.Dangling == nil {
		return errors.New("it does not say how to count what refers to it; one that leaves nothing behind says Nothing")
	}
	for _, j := range d.Jobs() {
		if j.Kind == feature.Sweep && deeds.Sweeps[j.Name] == nil || j.Kind == feature.Hold && deeds.Holds[j.Name] == nil {
			return fmt.Errorf("nobody can do its task %s", j.Name)
		}
	}
	return nil
}

func usage(format string, args ...any) error {
	return &verdict.UsageError{Err: fmt.Errorf("reconciling features: "+format, args...)}
}
