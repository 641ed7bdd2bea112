package serve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// How long a reading of the features may take, and for how long the last one
// counts where none succeeds: whoever keeps the site from answering keeps no
// requirement switched off for longer than that.
const (
	featuresTime = 20 * time.Second
	featuresLife = 10 * time.Minute
)

// Switches is how the features stood that switch requirements of a policy, when
// they were read. Package switches reads them.
type Switches interface {
	// For is the policy as it counts for what is at a place, or goes there.
	For(p policy.Policy, places ...string) (policy.Policy, error)
	// States are those in force.
	States() []featuretransition.State
}

// Features is how a server goes by features that others switch.
type Features struct {
	// Site is where they are kept.
	Site string
	// Read reads how those stand that the policy of a basis names.
	Read func(ctx context.Context, b Basis) (Switches, error)
	// Store has them as they are stored: for the page, and for what is asked of
	// the store while the service runs.
	Store featurestore.Store
	// Identity is whom the service reports as, and Version the program's; no
	// identity reports nothing. The gate was told of the reporter.
	Identity, Version string
	// Loop reconciles until its context ends; nil leaves that to others. It is
	// ended and begun anew when the basis was read anew.
	Loop func(ctx context.Context) error
}

// switched is how the features stand, as far as it is known.
type switched struct {
	Switches           // nil: they were never read
	at       time.Time // when they were read last
	objects  []feature.Feature
	// failed is why they could not be read since, and when that was.
	failed   error
	failedAt time.Time
}

// until is for how long they count.
func (f *switched) until() time.Time { return f.at.Add(featuresLife) }

// featureReader reads how the features stand, and reports and reconciles them.
type featureReader struct {
	world *World
	flags *flags
	tally *tally
	every time.Duration // between two readings

	looping atomic.Pointer[context.CancelFunc]
	// highest are the newest states that were in force, by feature. Who holds
	// reload of the [Server] owns them.
	highest map[string]featuretransition.State
}

// known reports by an error that it is not known any more how the features
// stand. A site that answers wrongly is worth no more than one that does not.
func (f *featureReader) known(last *switched) error {
	if last == nil || last.Switches != nil && f.world.Clock().Before(last.until()) {
		return nil
	}
	why := errors.New("they were never read")
	switch {
	case last.Switches != nil:
		why = fmt.Errorf("they were read last at %s, and count for %s: %v", last.at.UTC().Format(time.RFC3339), featuresLife, last.failed) //nolint:errorlint // what is refused there is refused here to nobody
	case last.failed != nil:
		why = fmt.Errorf("they were never read: %v", last.failed) //nolint:errorlint // the same
	}
	return &verdict.UnavailableError{Place: f.world.Features.Site, Op: "reading features", Err: why}
}

// under is the basis with its policy as it counts for a question.
func (f *featureReader) under(basis *standing, a asked) (*standing, error) {
	if basis.switched == nil {
		return basis, nil
	}
	if err := f.known(basis.switched); err != nil {
		return basis, err
	}
	for name := range basis.Policy.Floors() {
		f.flags.ask(name)
	}
	counts, err := basis.switched.For(basis.Policy, a.To)
	if err != nil {
		return basis, err
	}
	own := *basis
	own.Policy = counts
	return &own, nil
}

// next reads the features for a new basis. They stay as they are where
// they cannot be read and the basis is to be believed for the same reasons as
// the last; else there is no basis without them.
func (f *featureReader) next(ctx context.Context, before *standing, b Basis) (*switched, error) {
	if f.world.Features == nil {
		return nil, nil
	}
	if before == nil {
		return f.read(ctx, b, nil), nil
	}
	last := before.switched
	same := before.Policy.Digest().Equal(b.Policy.Digest()) && before.Verifier.Root().Digest().Equal(b.Verifier.Root().Digest())
	if !same && last.Switches != nil {
		next := f.read(ctx, b, nil)
		return next, next.failed
	}
	return f.read(ctx, b, last), nil
}

// read reads the features, or says why they cannot be read. It needs
// reload: see [Server].
func (f *featureReader) read(ctx context.Context, b Basis, last *switched) *switched {
	from, now := f.world.Features, f.world.Clock()
	ctx, stop := context.WithTimeout(ctx, featuresTime)
	defer stop()
	next := &switched{at: now}
	err := f.survived(ctx, "reading features", func() (err error) {
		if next.Switches, err = from.Read(ctx, b); err == nil {
			err = f.forwards(b, next.Switches)
		}
		return err
	})
	f.tally.readFeatures(err == nil)
	if err != nil {
		kept := switched{}
		if last != nil {
			kept = *last
		}
		kept.failed, kept.failedAt = err, now
		f.world.Log.ErrorContext(ctx, "features not read", "site", from.Site, "error", err.Error(), "code", string(verdict.FindingOf("features", err).Code))
		return &kept
	}
	if next.objects, err = from.Store.List(ctx); err != nil {
		f.world.Log.WarnContext(ctx, "features not listed, the page shows those that the policy names", "site", from.Site, "error", err.Error())
	}
	f.flags.follow(next)
	return next
}

// forwards refuses states that are behind those that were in force, and others
// of the same number: what was signed once is not taken back by putting an older
// statement in its place. It is known for as long as the process lives.
func (f *featureReader) forwards(b Basis, read Switches) error {
	now := map[string]featuretransition.State{}
	for _, state := range read.States() {
		now[feature.Key{Namespace: state.Namespace, Name: state.Name}.String()] = state
	}
	for name, seen := range f.highest {
		state, there := now[name]
		_, named := b.Policy.Floors()[seen.Name]
		switch {
		case !there && !named:
		case !there || state.Number < seen.Number:
			return verdict.Refuse(verdict.FeatureState, name+" at "+f.world.Features.Site, "it is at transition %d, and was at %d: it was put back", state.Number, seen.Number)
		case state.Number == seen.Number && string(state.Bytes()) != string(seen.Bytes()):
			return verdict.Refuse(verdict.FeatureState, name+" at "+f.world.Features.Site, "transition %d says another thing than it did", state.Number)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		state := now[name]
		if before, seen := f.highest[name]; !seen || before.Number != state.Number {
			f.world.Log.Info("feature in force", "feature", name, "state", state.State, "transition", state.Number)
		}
		f.highest[name] = state
	}
	return nil
}

// survived does what others have a hand in. A bug that is met there ends it, and
// not the service.
func (f *featureReader) survived(ctx context.Context, op string, do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			f.world.Log.ErrorContext(ctx, "a bug was met while "+op, "panic", fmt.Sprintf("%.1000v", p), "stack", string(debug.Stack()))
			err = verdict.Refuse(verdict.InternalBug, op, "a bug was met")
		}
	}()
	return do()
}

// reconcile keeps the loop going: nothing that it meets ends the service.
func (f *featureReader) reconcile(ctx context.Context) {
	loop := f.world.Features.Loop
	for loop != nil && ctx.Err() == nil {
		own, stop := context.WithCancel(ctx)
		f.looping.Store(&stop)
		err := f.survived(own, "reconciling features", func() error { return loop(own) })
		told := own.Err() != nil
		stop()
		if told {
			continue
		}
		f.world.Log.ErrorContext(ctx, "reconciling features ended, and begins anew", "error", fmt.Sprint(err))
		_ = transport.Sleep(ctx, f.every)
	}
}

// report reports what the service found, if what is stored does not say it.
func (f *featureReader) report(ctx context.Context, now *switched) {
	as := f.world.Features
	if as.Identity == "" || now == nil || !f.flags.unsaid(now.objects, as, f.world.Clock()) {
		return
	}
	ctx, stop := context.WithTimeout(ctx, featuresTime)
	defer stop()
	err := f.survived(ctx, "reporting features", func() error { return f.flags.gate.Report(ctx) })
	if err != nil && ctx.Err() == nil {
		f.world.Log.WarnContext(ctx, "features not reported, it is tried again", "site", as.Site, "error", err.Error())
	}
}
