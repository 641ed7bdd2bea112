package serve

import (
	"context"
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
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// How long reading the features may take, and how long the last states stay
// valid if reading fails: blocking access to the site keeps a requirement
// switched off for no longer than that.
const (
	featuresTime = 20 * time.Second
	featuresLife = 10 * time.Minute
)

// Switches are the states of features that switch requirements of a policy, as
// read at one time. Package switches reads them.
type Switches interface {
	// For returns the effective policy for images at, or promoted to, a place.
	For(p policy.Policy, places ...string) (policy.Policy, error)
	// States are the states in force.
	States() []featuretransition.State
}

// Features configures how a server uses features that others switch.
type Features struct {
	// Site is where they are stored.
	Site string
	// Read reads the states of the features in the policy of a basis.
	Read func(ctx context.Context, b Basis) (Switches, error)
	// Store reads the stored objects: for the page, and for reports while the
	// service runs.
	Store featurestore.Store
	// Identity is the name under which the service reports, and Version the
	// program's version; without an identity it does not report. The gate has
	// the reporter.
	Identity, Version string
	// Loop reconciles until its context ends; nil if another process does. It
	// is restarted after each reload of the basis.
	Loop func(ctx context.Context) error
}

// switched is the known state of the features.
type switched struct {
	Switches           // nil: never read
	at       time.Time // time of the last successful reading
	objects  []feature.Feature
	// failed is why later readings failed, and when.
	failed   error
	failedAt time.Time
}

// until is when they stop being valid.
func (f *switched) until() time.Time { return f.at.Add(featuresLife) }

// featureReader reads the features, and reports and reconciles them.
type featureReader struct {
	world *World
	flags *flags
	tally *tally
	every time.Duration // between two readings

	looping atomic.Pointer[context.CancelFunc]
	// highest are the newest states that were in force, by feature. They are
	// guarded by reload of the [Server].
	highest map[string]featuretransition.State
}

// checkKnown returns an error if no valid reading of the features exists. A site
// that answers wrongly is treated like one that does not answer.
func (f *featureReader) checkKnown(last *switched) error {
	if last == nil || last.Switches != nil && f.world.Clock().Before(last.until()) {
		return nil
	}
	why := fmt.Errorf("the features were never read: %v", last.failed) //nolint:errorlint // a refusal there is unavailability here
	if last.Switches != nil {
		why = fmt.Errorf("last read at %s, valid for %s: %v", last.at.UTC().Format(time.RFC3339), featuresLife, last.failed) //nolint:errorlint // the same
	}
	return &verdict.UnavailableError{Place: f.world.Features.Site, Op: "reading features", Err: why}
}

// effective returns the basis with the effective policy for a question.
func (f *featureReader) effective(basis *standing, a asked) (*standing, error) {
	if basis.switched == nil {
		return basis, nil
	}
	if err := f.checkKnown(basis.switched); err != nil {
		return basis, err
	}
	for name := range basis.Policy.Floors() {
		f.flags.enabled(name)
	}
	counts, err := basis.switched.For(basis.Policy, a.To)
	if err != nil {
		return basis, err
	}
	own := *basis
	own.Policy = counts
	return &own, nil
}

// next reads the features for a new basis. If that fails, the previous states
// remain, provided the new basis trusts the same signers; otherwise the new
// basis is refused.
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

// read reads the features, or records why it failed. The caller holds reload:
// see [Server].
func (f *featureReader) read(ctx context.Context, b Basis, last *switched) *switched {
	from, now := f.world.Features, f.world.Clock()
	ctx, stop := context.WithTimeout(ctx, featuresTime)
	defer stop()
	next := &switched{at: now}
	err := f.recovering(ctx, "reading features", func() (err error) {
		if next.Switches, err = from.Read(ctx, b); err == nil {
			err = f.refuseRollback(b, next.Switches)
		}
		return err
	})
	f.tally.ended(&f.tally.features, err == nil)
	if err != nil {
		kept := switched{}
		if last != nil {
			kept = *last
		}
		kept.failed, kept.failedAt = err, now
		f.world.Log.ErrorContext(ctx, "features could not be read", "site", from.Site, "error", err.Error(), "code", string(verdict.FindingOf("features", err).Code))
		return &kept
	}
	if next.objects, err = from.Store.List(ctx); err != nil {
		f.world.Log.WarnContext(ctx, "features could not be listed; the status page shows only those in the policy", "site", from.Site, "error", err.Error())
	}
	f.flags.follow(next)
	return next
}

// refuseRollback refuses states older than ones that were in force, and different
// states with the same number: a rollback to an older signed statement must not
// take effect. The memory lasts as long as the process.
func (f *featureReader) refuseRollback(b Basis, read Switches) error {
	now := slice.By(read.States(), func(state featuretransition.State) string {
		return feature.Key{Namespace: state.Namespace, Name: state.Name}.String()
	})
	for name, seen := range f.highest {
		state, there := now[name]
		_, named := b.Policy.Floors()[seen.Name]
		switch {
		case !there && !named:
		case !there || state.Number < seen.Number:
			return verdict.Refuse(verdict.FeatureState, name+" at "+f.world.Features.Site, "the feature was rolled back from transition %d to %d", seen.Number, state.Number)
		case state.Number == seen.Number && string(state.Bytes()) != string(seen.Bytes()):
			return verdict.Refuse(verdict.FeatureState, name+" at "+f.world.Features.Site, "transition %d was replaced by a different one", state.Number)
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

// recovering runs code that depends on foreign input. A panic ends that code, and
// not the service.
func (f *featureReader) recovering(ctx context.Context, op string, do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			f.world.Log.ErrorContext(ctx, "internal error while "+op, "panic", fmt.Sprintf("%.1000v", p), "stack", string(debug.Stack()))
			err = verdict.Refuse(verdict.InternalBug, op, "internal error")
		}
	}()
	return do()
}

// reconcile keeps the loop running: its errors never end the service.
func (f *featureReader) reconcile(ctx context.Context) {
	loop := f.world.Features.Loop
	for loop != nil && ctx.Err() == nil {
		own, stop := context.WithCancel(ctx)
		f.looping.Store(&stop)
		err := f.recovering(own, "reconciling features", func() error { return loop(own) })
		told := own.Err() != nil
		stop()
		if told {
			continue
		}
		f.world.Log.ErrorContext(ctx, "reconciling features ended; restarting it", "error", fmt.Sprint(err))
		_ = transport.Sleep(ctx, f.every)
	}
}

// report reports the service's findings if the stored ones are outdated.
func (f *featureReader) report(ctx context.Context, now *switched) {
	as := f.world.Features
	if as.Identity == "" || now == nil || !f.flags.needsReport(now.objects, as, f.world.Clock()) {
		return
	}
	ctx, stop := context.WithTimeout(ctx, featuresTime)
	defer stop()
	err := f.recovering(ctx, "reporting features", func() error { return f.flags.gate.Report(ctx) })
	if err != nil && ctx.Err() == nil {
		f.world.Log.WarnContext(ctx, "features could not be reported; retrying", "site", as.Site, "error", err.Error())
	}
}
