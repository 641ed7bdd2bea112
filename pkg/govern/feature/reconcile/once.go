package reconcile

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Pass is the result of one pass for one feature.
type Pass struct {
	Key feature.Key
	// Before and After are the states; "" if the feature did not exist.
	Before, After feature.State
	// Did describes what was done; "" if there was nothing to do.
	Did string
	// Names are all objects that remain in the task that was run; the object keeps
	// only some.
	Names []string
	// Feature is the object as it is stored now.
	Feature feature.Feature
	// Err is why it failed. The next pass tries again.
	Err error
}

// Once makes one pass over all features. An error with one feature does not stop the
// others; the returned error has all. If the signer may not sign, nothing is done at all:
// a transition would wait for a signature that cannot be made.
func (r *Reconciler) Once(ctx context.Context) ([]Pass, error) {
	if err := r.c.Signer.Ready(ctx); err != nil {
		return nil, fmt.Errorf("reconciling features (nothing was written): %w", err)
	}
	there, err := r.c.Store.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("reconciling features: %w", err)
	}
	keys := r.c.Registry.Keys()
	for _, f := range there {
		if !slices.Contains(keys, f.Key()) {
			keys = append(keys, f.Key())
		}
	}
	var signed Signed
	if from := r.c.Self.Statements; from != nil {
		if signed, err = from.Signed(ctx); err != nil {
			return nil, fmt.Errorf("reconciling features: %w", err)
		}
	}
	if r.c.Self.Tidy != nil {
		r.c.Self.Tidy(r.c.Clock())
	}
	live := r.live(ctx)
	var passes []Pass
	var failed []error
	for _, k := range keys {
		p := r.one(ctx, k, live, signed)
		if p.Err != nil {
			failed = append(failed, fmt.Errorf("reconciling feature %s: %w", k, p.Err))
		}
		passes = append(passes, p)
	}
	return passes, errors.Join(failed...)
}

// live lists the live reconcilers. If that fails, act as the leader of every feature: two
// leaders are harmless, none is not.
func (r *Reconciler) live(ctx context.Context) []string {
	if r.c.Self.Live == nil {
		return []string{r.c.Self.Identity}
	}
	ids, err := r.c.Self.Live.Identities(ctx)
	if err != nil {
		return []string{r.c.Self.Identity}
	}
	return append(slices.Clone(ids), r.c.Self.Identity)
}

func (r *Reconciler) one(ctx context.Context, k feature.Key, live []string, signed Signed) Pass {
	t := &featurePass{r: r, signed: signed, pass: Pass{Key: k}}
	if leader := feature.Leader(k, live); leader != r.c.Self.Identity {
		t.pass.Did = "left to " + leader
		return t.pass
	}
	err := t.reconcile(ctx, k)
	if errors.Is(err, featurestore.ErrConflict) {
		t.did("another program wrote it first")
		err = nil
	}
	t.pass.Err = err
	return t.pass
}

// featurePass is the state of a pass over one feature.
type featurePass struct {
	r      *Reconciler
	signed Signed // nil: the store is trusted
	pass   Pass
	f      feature.Feature
	made   int // the transition that may be signed: made in this pass, or the one that would be made now
}

func (t *featurePass) did(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if t.pass.Did != "" {
		text = t.pass.Did + "; " + text
	}
	t.pass.Did = text
}

// reconcile does everything that is to be done for a feature.
func (t *featurePass) reconcile(ctx context.Context, k feature.Key) error {
	c := t.r.c
	d, known := c.Registry.Definition(k)
	if known {
		_, known = d.At(c.Self.Version)
	}
	f, err := c.Store.Get(ctx, k)
	there := err == nil
	if err != nil && !errors.Is(err, featurestore.ErrNotFound) {
		return err
	}
	if there {
		t.setStored(f)
		t.pass.Before = f.Status.State
	}
	switch {
	case !known && there:
		return t.keepUnknown(ctx)
	case !known:
		return nil
	}
	if restored, err := t.restore(ctx, k, d); restored || err != nil {
		return err
	}
	if !there {
		return t.announce(ctx, k, d)
	}
	if err := t.step(ctx, d); err != nil {
		return err
	}
	return t.setConditions(ctx, d)
}

// restore restores a feature from the last signed transition, if the object is missing,
// older, or differs from what was signed. If another program writes the object at the
// same time, the store refuses this write.
func (t *featurePass) restore(ctx context.Context, k feature.Key, d feature.Definition) (restored bool, err error) {
	c, has := t.r.c, t.f.Effective()
	if t.signed == nil {
		return false, nil
	}
	last, err := t.signed.Last(ctx, k)
	if n := last.Said.Number; err == nil && (has.Number > n+1 || t.f.Lost(n) != "") {
		// Others may have signed after the list was made.
		if t.signed, err = c.Self.Statements.Signed(ctx); err == nil {
			last, err = t.signed.Last(ctx, k)
		}
	}
	if err != nil {
		return false, err
	}
	n := last.Said.Number
	switch lost := t.f.Lost(n); {
	case lost != "" && has.Number > n:
		return false, verdict.Refuse(verdict.FeatureState, k.String(), "the history names the statement %q, which is not listed", lost).Advise(feature.LostAdvice)
	case has.Number > n+1:
		return false, verdict.Refuse(verdict.FeatureState, k.String(), "the feature is at transition %d, but the last signed one is %d", has.Number, n).
			Advise("restore the missing statements from a copy of the site")
	}
	switch is, err := t.isOurs(ctx, d, last); {
	case err != nil:
		return false, err
	case is:
		t.unlisted(k)
		return false, nil
	}
	f, err := d.Restore(last, c.Self.Version, c.Clock())
	if n == 0 {
		f, err = feature.Announce(k, d, c.Self.Version)
	}
	if err != nil {
		return false, err
	}
	write := c.Store.Create
	if f.Metadata.Generation = t.f.Metadata.Generation; f.Metadata.Generation > 0 {
		write = c.Store.Update
	}
	if f, err = write(ctx, f); err != nil {
		return false, err
	}
	t.setStored(f)
	if has.Number > n {
		t.did("reverted to transition %d: the site had a later one that is unsigned and not wanted", n)
		return true, nil
	}
	t.did("restored from the statement about transition %d: the object was missing, or older", n)
	return true, nil
}

// isOurs reports whether the object agrees with the last signed transition, or with the
// next one that would be made now. Objects are unsigned, so no other transition in one is
// ever signed.
func (t *featurePass) isOurs(ctx context.Context, d feature.Definition, last feature.LastSigned) (bool, error) {
	has, n := t.f.Effective(), last.Said.Number
	said, _, missing := t.f.Unsigned()
	switch {
	case has.Number == n && n > 0:
		t.made = n // it may be signed, but not recorded
		return string(has.Bytes()) == string(last.Said.State().Bytes()) && (!missing || reflect.DeepEqual(said, last.Said)), nil
	case has.Number == n && !missing:
		return true, nil
	case has.Number <= n || !missing || said.Number != has.Number:
		return false, nil
	}
	is, err := feature.Follows(t.input(ctx, d), last.Said.State(), said)
	if is {
		t.made = said.Number
	}
	return is, err
}

// unlisted reports missing statements of earlier transitions. No state depends on them.
func (t *featurePass) unlisted(k feature.Key) {
	for _, e := range t.f.Status.History {
		if n := e.Transition.Number; e.Statement != "" && !t.signed.Has(k, n) {
			t.did("the statement about transition %d, %q, is missing: restore it from a copy of the site", n, e.Statement)
		}
	}
}

// setStored sets the object to its stored version.
func (t *featurePass) setStored(f feature.Feature) {
	t.f, t.pass.Feature, t.pass.After = f, f, f.Status.State
}

// announce writes the object of a new feature.
func (t *featurePass) announce(ctx context.Context, k feature.Key, d feature.Definition) error {
	f, err := feature.Announce(k, d, t.r.c.Self.Version)
	if err != nil {
		return err
	}
	if f, err = t.r.c.Store.Create(ctx, f); err != nil {
		return err
	}
	t.setStored(f)
	t.did("announced")
	return nil
}

// keepUnknown handles a feature that the program does not know.
func (t *featurePass) keepUnknown(ctx context.Context) error {
	f, forgotten := feature.Forget(t.f, t.r.c.Self.Version)
	if forgotten {
		t.did("forgotten: last known to %s", f.Status.LastKnownVersion)
	}
	return t.store(ctx, feature.WithConditions(f, feature.SafeConditions(f, nil, t.r.c.Self.Version)...))
}

// store writes the object if it differs from the stored one.
func (t *featurePass) store(ctx context.Context, f feature.Feature) error {
	before, err := t.f.Bytes()
	if err != nil {
		return err
	}
	after, err := f.Bytes()
	if err != nil {
		return err
	}
	if string(before) == string(after) {
		return nil
	}
	if f, err = t.r.c.Store.Update(ctx, f); err != nil {
		return err
	}
	t.setStored(f)
	return nil
}

// step makes one step, runs at most one task, and signs the resulting transition.
func (t *featurePass) step(ctx context.Context, d feature.Definition) error {
	if err := t.sign(ctx); err != nil {
		return err
	}
	step, err := feature.Next(t.input(ctx, d))
	if err != nil {
		return err
	}
	if err := t.keep(ctx, step); err != nil || step.Run == nil {
		return err
	}
	outcome, err := t.run(ctx, *step.Run)
	if err != nil {
		outcome = feature.Outcome{Remaining: step.Run.Remaining, Message: err.Error()}
		t.did("task %s failed", step.Run.Name)
	}
	t.pass.Names = outcome.Names
	if wrong := t.settle(ctx, d, *step.Run, outcome); wrong != nil {
		return wrong
	}
	return err // also recorded in the object
}

// attempts is how often an outcome is written again after a conflicting report.
const attempts = 16

// settle records the outcome of a task. The task may have taken hours, and programs may
// have reported meanwhile: the outcome is then recorded in the current object, if that is
// still in the same transition.
func (t *featurePass) settle(ctx context.Context, d feature.Definition, ran feature.Task, o feature.Outcome) (err error) {
	for range attempts {
		var applied feature.Step
		if applied, err = feature.Apply(t.input(ctx, d), ran, o); err != nil {
			return err
		}
		if err = t.keep(ctx, applied); !errors.Is(err, featurestore.ErrConflict) {
			return err
		}
		before := t.f.Status
		now, read := t.r.c.Store.Get(ctx, t.f.Key())
		if read != nil {
			return read
		}
		t.setStored(now)
		if now.Status.Number != before.Number || (now.Status.Moving == nil) != (before.Moving == nil) || len(now.Status.Done) != len(before.Done) {
			return err // another reconciler went on
		}
	}
	return err
}

// keep stores the object of a step, and signs the transition that it made.
func (t *featurePass) keep(ctx context.Context, step feature.Step) error {
	before := t.f.Status
	if err := t.store(ctx, step.Feature); err != nil {
		return err
	}
	now := t.f.Status
	if len(now.Done) > len(before.Done) {
		t.did("task %s is done", now.Done[len(now.Done)-1].Name)
	}
	if now.Number != before.Number {
		t.made = now.Number
		t.did("%s to %s", before.State, now.State)
	}
	return t.sign(ctx)
}

// input is the input of package feature.
func (t *featurePass) input(ctx context.Context, d feature.Definition) feature.Input {
	c, k := t.r.c, t.f.Key()
	in := feature.Input{
		Feature: t.f, Definition: d, Running: c.Self.Version, Reconciler: c.Self.Identity,
		MayBeDynamic: slices.Contains(c.Wishes.Dynamic, k), Window: t.r.windows[k.Namespace], Now: c.Clock(),
		Expected: slice.Map(c.Expect[k.Namespace].Reporters, func(r Reporter) string { return r.Identity }),
	}
	if w, named := c.Wishes.Wanted[k]; named {
		in.Wanted = &w
	}
	if c.Self.Trace != nil {
		in.Trace = c.Self.Trace(ctx)
	}
	return in
}

// sign signs a transition without a statement. Any reconciler may do that, so the
// statement names the one that made the transition.
func (t *featurePass) sign(ctx context.Context) error {
	said, _, missing := t.f.Unsigned()
	if !missing {
		return nil
	}
	if k := t.f.Key(); t.signed != nil && said.Number != t.made {
		return verdict.Refuse(verdict.FeatureState, k.String(), "transition %d was not made by a reconciler, so it is not signed", said.Number).
			Advise("find out who writes to the site; the next pass reverts the feature to its last signed state")
	}
	statement, err := featuretransition.New(said)
	if err != nil {
		return err
	}
	where, err := t.r.c.Signer.Sign(ctx, fmt.Sprintf("%s/%d", said.Subject(), said.Number), statement)
	if err != nil {
		return fmt.Errorf("signing transition %d: %w", said.Number, err)
	}
	f, err := feature.Signed(t.f, said.Number, where)
	if err != nil {
		return err
	}
	return t.store(ctx, f)
}

func (t *featurePass) run(ctx context.Context, task feature.Task) (feature.Outcome, error) {
	deeds := t.r.c.Deeds[t.f.Key()]
	w := t.work(task.Params)
	if task.Kind == feature.Sweep {
		sweep := deeds.Sweeps[task.Name]
		if sweep == nil {
			return feature.Outcome{}, fmt.Errorf("version %s has no task %s", t.r.c.Self.Version, task.Name)
		}
		return sweep.Sweep(ctx, w)
	}
	hold := deeds.Holds[task.Name]
	if hold == nil {
		return feature.Outcome{}, fmt.Errorf("version %s has no task %s", t.r.c.Self.Version, task.Name)
	}
	found, err := hold.Count(ctx, w)
	switch {
	case err != nil:
		return feature.Outcome{}, err
	case found.Count > 0:
		return feature.Outcome{Remaining: found.Count, Message: "held by " + found.String()}, nil
	}
	return feature.Outcome{Done: true, Message: "no object holds it"}, nil
}

// work is the input of a task now: the scope is where the feature applies, or did.
func (t *featurePass) work(params map[string]string) Work {
	scope := t.f.Status.Preparing
	if scope.IsNone() {
		scope = t.f.Status.Enforced
	}
	if scope.IsNone() {
		scope = feature.Scope{Everything: true}
	}
	return Work{Key: t.f.Key(), State: t.f.Status.State, Scope: scope, Params: params}
}

// String is the number, with some of the names.
func (f Found) String() string {
	text := fmt.Sprint(f.Count)
	if len(f.Sample) > 0 {
		text += ": " + strings.Join(f.Sample[:min(len(f.Sample), 5)], ", ")
	}
	return text
}

// setConditions computes the conditions. Dangling only applies while the feature is Off; earlier
// counts are outdated.
func (t *featurePass) setConditions(ctx context.Context, d feature.Definition) (failed error) {
	dangling := feature.Condition{Type: feature.Dangling, Status: "Unknown", Message: "the feature is " + string(t.f.Status.State)}
	if t.f.Status.State == feature.Off {
		found, err := t.r.c.Deeds[t.f.Key()].Dangling.Count(ctx, t.work(nil))
		switch {
		case err != nil:
			dangling.Message = err.Error()
			failed = fmt.Errorf("counting what refers to it: %w", err)
		case found.Count > 0:
			dangling.Status, dangling.Count, dangling.Sample = "True", found.Count, found.Sample
			dangling.Message = "the feature is Off, and objects still refer to it"
		default:
			dangling.Status, dangling.Message = "False", ""
		}
	}
	f := feature.DropOldUses(t.f, t.r.c.Clock())
	f = feature.WithConditions(f, dangling)
	f = feature.WithConditions(f, feature.SafeConditions(f, &d, t.r.c.Self.Version)...)
	if err := t.store(ctx, f); err != nil {
		return err
	}
	return failed
}
