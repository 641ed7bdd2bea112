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
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Pass is what one pass did to one feature.
type Pass struct {
	Key feature.Key
	// Before and After are the states, "" of a feature that was not there.
	Before, After feature.State
	// Did is what was done, in words; "" if there was nothing to do.
	Did string
	// Names are what remains of the task that was run, all of it: the object keeps
	// only some.
	Names []string
	// Feature is the object as it is stored now.
	Feature feature.Feature
	// Err is why it could not be done. The next pass tries again.
	Err error
}

// Once makes one pass over all features. What goes wrong with one does not keep
// the others; the error names all. One that is unavailable has decided nothing.
// Where nobody can sign who may, nothing is done at all: what is begun would wait
// for a signature that does not come.
func (r *Reconciler) Once(ctx context.Context) ([]Pass, error) {
	if err := r.c.Signer.Ready(ctx); err != nil {
		return nil, fmt.Errorf("reconciling features, of which nothing was written: %w", err)
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

// live lists who reconciles. When nobody can tell, each does all: a wrong
// leader is harmless, and none is not.
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

// one makes the pass over one feature.
func (r *Reconciler) one(ctx context.Context, k feature.Key, live []string, signed Signed) Pass {
	t := &turn{r: r, signed: signed, pass: Pass{Key: k}}
	if leader := feature.Leader(k, live); leader != r.c.Self.Identity {
		t.pass.Did = "left to " + leader
		return t.pass
	}
	err := t.tend(ctx, k)
	if errors.Is(err, featurestore.ErrConflict) {
		t.did("somebody else was quicker")
		err = nil
	}
	t.pass.Err = err
	return t.pass
}

// turn is the pass over one feature while it is made.
type turn struct {
	r      *Reconciler
	signed Signed // nil: the store is believed
	pass   Pass
	f      feature.Feature
	made   int // the transition that may be signed: it was made here, or is the one that would be
}

func (t *turn) did(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if t.pass.Did != "" {
		text = t.pass.Did + "; " + text
	}
	t.pass.Did = text
}

// tend does what there is to do.
func (t *turn) tend(ctx context.Context, k feature.Key) error {
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
		t.saw(f)
		t.pass.Before = f.Status.State
	}
	switch {
	case !known && there:
		return t.stranger(ctx)
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
	return t.look(ctx, d)
}

// restore puts a feature back to the last signed transition, if the store has
// none, or one that is behind it or says something else of it. An object that
// is written meanwhile is no loss: the store refuses to write over it.
func (t *turn) restore(ctx context.Context, k feature.Key, d feature.Definition) (restored bool, err error) {
	c, has := t.r.c, t.f.Effective()
	if t.signed == nil {
		return false, nil
	}
	last, err := t.signed.Last(ctx, k)
	if n := last.Said.Number; err == nil && (has.Number > n+1 || t.f.Lost(n) != "") {
		// The list was made when the pass began, and others sign, too.
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
		return false, verdict.Refuse(verdict.FeatureState, k.String(), "its history names the statement %q, which is not listed", lost).Advise(feature.LostAdvice)
	case has.Number > n+1:
		return false, verdict.Refuse(verdict.FeatureState, k.String(), "it is at transition %d, and %d is the last that is signed", has.Number, n).
			Advise("statements are missing: put those back that were removed")
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
	t.saw(f)
	if has.Number > n {
		t.did("put back to transition %d: the site had another one after it, which nobody signed and nobody wants", n)
		return true, nil
	}
	t.did("restored from the statement about transition %d: the site had lost it, or had an older one", n)
	return true, nil
}

// isOurs reports whether the object says what was signed last, or the transition
// after that which is to be made now. What is stored is signed by nobody, so no
// other one is ever signed, however it came there.
func (t *turn) isOurs(ctx context.Context, d feature.Definition, last feature.LastSigned) (bool, error) {
	has, n := t.f.Effective(), last.Said.Number
	said, _, missing := t.f.Unsigned()
	switch {
	case has.Number == n && n > 0:
		t.made = n // it may have been signed, and not written down
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

// unlisted says which statements of earlier transitions are not there. They are
// not in force any more, and no state rests on them.
func (t *turn) unlisted(k feature.Key) {
	for _, e := range t.f.Status.History {
		if n := e.Transition.Number; e.Statement != "" && !t.signed.Has(k, n) {
			t.did("the statement about transition %d, %q, is not listed: put it back from a copy of the site", n, e.Statement)
		}
	}
}

// saw remembers the object as it is stored.
func (t *turn) saw(f feature.Feature) {
	t.f, t.pass.Feature, t.pass.After = f, f, f.Status.State
}

// announce writes the object of a feature that has none.
func (t *turn) announce(ctx context.Context, k feature.Key, d feature.Definition) error {
	f, err := feature.Announce(k, d, t.r.c.Self.Version)
	if err != nil {
		return err
	}
	if f, err = t.r.c.Store.Create(ctx, f); err != nil {
		return err
	}
	t.saw(f)
	t.did("announced")
	return nil
}

// stranger keeps a feature that the program does not know.
func (t *turn) stranger(ctx context.Context) error {
	f, forgotten := feature.Forget(t.f, t.r.c.Self.Version)
	if forgotten {
		t.did("forgotten: %s knew it last", f.Status.LastKnownVersion)
	}
	return t.store(ctx, feature.WithConditions(f, feature.SafeConditions(f, nil, t.r.c.Self.Version)...))
}

// store writes the object if it differs from what is stored.
func (t *turn) store(ctx context.Context, f feature.Feature) error {
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
	t.saw(f)
	return nil
}

// step makes one step, runs at most one task, and signs what came of it.
func (t *turn) step(ctx context.Context, d feature.Definition) error {
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
	return err // it is in the object, and told as well
}

// attempts is how often an outcome is written down again that a report overtook.
const attempts = 16

// settle writes down what became of a task. That may have taken hours, in which
// others reported: then the outcome goes into the object as it is by now, if
// that is still in the same transition.
func (t *turn) settle(ctx context.Context, d feature.Definition, ran feature.Task, o feature.Outcome) error {
	var err error
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
		t.saw(now)
		if now.Status.Number != before.Number || (now.Status.Moving == nil) != (before.Moving == nil) || len(now.Status.Done) != len(before.Done) {
			return err // somebody else took it further
		}
	}
	return err
}

// keep stores what a step says, and signs the transition that it made.
func (t *turn) keep(ctx context.Context, step feature.Step) error {
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

// input is what package feature decides from.
func (t *turn) input(ctx context.Context, d feature.Definition) feature.Input {
	c, k := t.r.c, t.f.Key()
	in := feature.Input{
		Feature: t.f, Definition: d, Running: c.Self.Version, Reconciler: c.Self.Identity,
		MayBeDynamic: slices.Contains(c.Wishes.Dynamic, k), Window: t.r.windows[k.Namespace], Now: c.Clock(),
	}
	for _, r := range c.Expect[k.Namespace].Reporters {
		in.Expected = append(in.Expected, r.Identity)
	}
	if w, named := c.Wishes.Wanted[k]; named {
		in.Wanted = &w
	}
	if c.Self.Trace != nil {
		in.Trace = c.Self.Trace(ctx)
	}
	return in
}

// sign signs the transition that has no statement yet. It is done by whoever
// finds it, so it says who made the transition and not who signs.
func (t *turn) sign(ctx context.Context) error {
	said, _, missing := t.f.Unsigned()
	if !missing {
		return nil
	}
	if k := t.f.Key(); t.signed != nil && said.Number != t.made {
		return verdict.Refuse(verdict.FeatureState, k.String(), "transition %d was written past the reconciler, and is not signed", said.Number).
			Advise("find out who writes to the site; the next pass puts the feature back to what was signed last")
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

// run runs one task.
func (t *turn) run(ctx context.Context, task feature.Task) (feature.Outcome, error) {
	deeds := t.r.c.Deeds[t.f.Key()]
	w := t.work(task.Params)
	if task.Kind == feature.Sweep {
		sweep := deeds.Sweeps[task.Name]
		if sweep == nil {
			return feature.Outcome{}, fmt.Errorf("%s does not know task %s", t.r.c.Self.Version, task.Name)
		}
		return sweep.Sweep(ctx, w)
	}
	hold := deeds.Holds[task.Name]
	if hold == nil {
		return feature.Outcome{}, fmt.Errorf("%s does not know task %s", t.r.c.Self.Version, task.Name)
	}
	found, err := hold.Count(ctx, w)
	switch {
	case err != nil:
		return feature.Outcome{}, err
	case found.Count > 0:
		return feature.Outcome{Remaining: found.Count, Message: "held by " + found.String()}, nil
	}
	return feature.Outcome{Done: true, Message: "nothing holds it"}, nil
}

// work is what a task is about now: all that the feature counts in, or did.
func (t *turn) work(params map[string]string) Work {
	scope := t.f.Status.Preparing
	if scope.IsNone() {
		scope = t.f.Status.Enforced
	}
	if scope.IsNone() {
		scope = feature.Scope{Everything: true}
	}
	return Work{Key: t.f.Key(), State: t.f.Status.State, Scope: scope, Params: params}
}

// String says how many there are, with some of them.
func (f Found) String() string {
	text := fmt.Sprint(f.Count)
	if len(f.Sample) > 0 {
		text += ": " + strings.Join(f.Sample[:min(len(f.Sample), 5)], ", ")
	}
	return text
}

// look computes the conditions. What refers to a feature dangles only when that
// is Off; whatever was counted before it was is worth nothing then.
func (t *turn) look(ctx context.Context, d feature.Definition) error {
	dangling := feature.Condition{Type: feature.Dangling, Status: "Unknown", Message: "it is " + string(t.f.Status.State)}
	var failed error
	if t.f.Status.State == feature.Off {
		found, err := t.r.c.Deeds[t.f.Key()].Dangling.Count(ctx, t.work(nil))
		switch {
		case err != nil:
			dangling.Message = err.Error()
			failed = fmt.Errorf("counting what refers to it: %w", err)
		case found.Count > 0:
			dangling.Status, dangling.Count, dangling.Sample = "True", found.Count, found.Sample
			dangling.Message = "it is Off, and something still refers to it"
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
