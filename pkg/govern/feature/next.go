package feature

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Wanted is the desired state of a feature in the reviewed configuration.
type Wanted struct {
	// Desired is On or Off, or "" for the default.
	Desired State
	// Scope limits where; the zero Scope is everywhere.
	Scope Scope
}

// Input is everything that the next step of a feature depends on.
type Input struct {
	Feature    Feature
	Definition Definition
	Running    version.Version // of the program
	Reconciler string          // its identity
	// Wanted is the desired state in the configuration; nil if it does not name the
	// feature.
	Wanted *Wanted
	// MayBeDynamic says that the configuration lists the feature as dynamic. Its
	// definition must allow that, too.
	MayBeDynamic bool
	// Expected are the reporters that must report, at least one, and Window is the
	// time that they have for it.
	Expected []string
	Window   time.Duration
	Now      time.Time
	Trace    *Trace
}

// Step is what to do next. An empty Step means nothing to do.
type Step struct {
	// Feature is the object to store, if it Changed.
	Feature Feature
	Changed bool
	// Sign is the transition without a statement. It must be signed before anything
	// else is done.
	Sign *featuretransition.Predicate
	// Run is the task to run now. Its outcome goes to [Apply].
	Run *Task
}

// Next decides the next step of one feature. It changes the state at most once, and
// starts at most one task. The same input gives the same step.
func Next(in Input) (Step, error) {
	if err := in.check(); err != nil {
		return Step{}, err
	}
	p := pass{Input: in, f: in.Feature.clone()}
	if missing, _, some := p.f.Unsigned(); some {
		return Step{Feature: p.f, Sign: &missing}, nil
	}
	if err := p.refresh(); err != nil {
		return Step{}, err
	}
	before := p.f.Status.Number
	p.begin()
	if p.f.Status.Number == before && len(p.f.Status.Tasks) > 0 {
		first := p.f.Status.Tasks[0]
		if first.Kind != WaitForUses {
			return p.step(&first), nil
		}
		p.apply(first, p.judgeUses(first))
	}
	return p.step(nil), nil
}

// Apply is the object after a task has run. The outcome of any task but the first
// remaining one is ignored: the desired state changed while the task ran. So is the
// outcome of a wait, which only [Next] judges.
func Apply(in Input, ran Task, o Outcome) (Step, error) {
	if err := in.check(); err != nil {
		return Step{}, err
	}
	p := pass{Input: in, f: in.Feature.clone()}
	tasks := p.f.Status.Tasks
	if len(tasks) > 0 && ran.Kind != WaitForUses && tasks[0].Kind == ran.Kind && tasks[0].Name == ran.Name {
		p.apply(tasks[0], o)
	}
	return p.step(nil), nil
}

// Follows reports whether a stored, unsigned transition is the one that [Next] would
// make now from the last signed state, in the desired direction and scope. Any other may
// have been written by an attacker. Number 0 is the state of a feature without a signed
// statement.
func Follows(in Input, last featuretransition.State, said featuretransition.Predicate) (bool, error) {
	p := pass{Input: in, f: in.Feature.clone()}
	s := &p.f.Status
	s.State, s.Number, s.Enforced, s.Preparing = Off, last.Number, last.Enforced, last.Preparing
	if last.Number > 0 {
		s.State = State(last.State)
	}
	s.History, s.Tasks, s.Done, s.Moving = nil, nil, nil, nil
	from := s.State
	if err := p.refresh(); err != nil {
		return false, err
	}
	if p.begin(); s.Number == last.Number {
		p.complete()
	}
	return s.Number == said.Number && said.From == string(from) && string(p.f.Effective().Bytes()) == string(said.State().Bytes()), nil
}

// Outcome is the result of a task.
type Outcome struct {
	// Done says that the task is complete. It does not count if Remaining is not 0.
	Done      bool
	Remaining int
	Message   string
	// Names are all objects that remain, in the order of the report.
	Names []string
	// reporters are the reporters that a wait waited for.
	reporters []string
	// reopen restarts the window of a wait.
	reopen bool
}

// check refuses an incomplete input.
func (in Input) check() error {
	switch {
	case len(in.Expected) == 0:
		return usage("feature %s: no reporter is expected, so no report would be waited for; list the programs that use it", in.Feature.Key())
	case in.Window <= 0 || in.Now.IsZero() || in.Running.IsZero():
		return usage("feature %s: want a window, a time and the running version", in.Feature.Key())
	case len(in.Expected) > MaxUses/2 || slices.ContainsFunc(in.Expected, func(r string) bool { return !isIdentity(r) }):
		return usage("feature %s: want at most %d reporters, each with a name of up to %d bytes", in.Feature.Key(), MaxUses/2, maxIdentity)
	case !isIdentity(in.Reconciler):
		return usage("feature %s: want the identity of the reconciler", in.Feature.Key())
	case in.Wanted != nil && in.Wanted.Desired != "" && !in.Wanted.Desired.IsSteady():
		return usage("feature %s: desired state %q: want On or Off", in.Feature.Key(), in.Wanted.Desired)
	case in.Definition.Name != in.Feature.Metadata.Name:
		return usage("feature %s: the definition is for %q", in.Feature.Key(), in.Definition.Name)
	}
	return in.Feature.Validate()
}

// pass is one pass over a feature; f is the object that it changes.
type pass struct {
	Input
	f Feature
}

func (p *pass) step(run *Task) Step {
	before, _ := p.Feature.Bytes()
	after, err := p.f.Bytes()
	return Step{Feature: p.f, Changed: err != nil || string(before) != string(after), Run: run}
}

// refresh updates the object from the definition and the configuration.
func (p *pass) refresh() error {
	now, known := p.Definition.At(p.Running)
	if !known {
		return usage("feature %s: unknown to version %s", p.f.Key(), p.Running)
	}
	s := &p.f.Status
	s.Default, s.Stage, s.LastKnownVersion, s.Forgotten = now.Default, string(now.Stage), p.Running.String(), false
	spec := &p.f.Spec
	spec.Dynamic = p.Definition.Dynamic && p.MayBeDynamic
	if v, err := version.Parse(spec.PrepareFor); err == nil && notAfter(v, p.Running) && notAfter(p.Running, v) {
		spec.PrepareFor = "" // that version runs
	}
	switch {
	case p.Wanted != nil:
		spec.Desired, spec.Scope = p.Wanted.Desired, p.Wanted.Scope
	case !spec.Dynamic: // only the default remains
		spec.Desired, spec.Scope = "", Scope{}
	}
	if spec.Scope.IsNone() {
		spec.Scope = Scope{Everything: true}
	}
	if err := spec.validate(); err != nil {
		return usage("feature %s: %w", p.f.Key(), err)
	}
	if s.State == Off && p.f.Condition(Dangling).Status == "False" {
		to := p.target()
		s.Version, s.Schema = to.Version, to.Schema // there are no data to convert
	}
	return nil
}

// target is the form that the data should have.
func (p *pass) target() Move {
	at := p.Running
	if v, err := version.Parse(p.f.Spec.PrepareFor); err == nil {
		at = v
	}
	now, known := p.Definition.At(at)
	if !known { // for a version that does not know the feature, keep the form of this one
		at = p.Running
		now, _ = p.Definition.At(at)
	}
	return Move{Version: at.String(), Schema: now.Schema}
}

// begin starts a transition if the desired state or scope differs from the actual one.
func (p *pass) begin() {
	s := &p.f.Status
	want := p.f.Wants()
	scope := p.f.Spec.Scope
	switch {
	case s.State.goal() != want && want == On:
		p.turn(TurningOn, "On is wanted")
	case s.State.goal() != want:
		p.turn(TurningOff, "Off is wanted")
	case s.State == TurningOn && !sameScope(scope, s.Preparing):
		p.turn(TurningOn, "another scope is wanted")
	case s.State == On && sameScope(scope, s.Enforced):
		p.move()
	case s.State == On && within(scope, s.Enforced):
		s.Enforced = scope
		p.record(On, "a narrower scope is wanted", nil)
	case s.State == On:
		p.turn(TurningOn, "a wider scope is wanted")
	}
}

// turn enters a transitional state with a new list of tasks. Tasks that were done for
// another transition do not count.
func (p *pass) turn(to State, reason string) {
	s := &p.f.Status
	if to == TurningOn {
		s.Preparing = p.f.Spec.Scope
		if s.State == TurningOff {
			s.Enforced = Scope{}
		}
		p.assemble(p.Definition.OnTasks)
	} else {
		s.Preparing = union(s.Enforced, s.Preparing)
		s.Enforced = Scope{}
		p.assemble(p.Definition.OffTasks)
	}
	p.record(to, reason, todo(s.Tasks))
}

// move begins to convert the data to the form that the program reads. The state stays
// On meanwhile, and requirements stay enforced.
func (p *pass) move() {
	s, to := &p.f.Status, p.target()
	switch {
	case s.Moving != nil && *s.Moving == to:
		return
	case s.Schema == to.Schema:
		s.Version, s.Moving, s.Tasks, s.Done = to.Version, nil, nil, nil
		return
	}
	p.assemble(nil)
}

// assemble makes the list of tasks: first the wait for uses, then the conversion of
// data, then the tasks of the transition.
func (p *pass) assemble(jobs []Job) {
	s, to := &p.f.Status, p.target()
	wait := Task{Kind: WaitForUses, Name: string(WaitForUses), Since: stamp(p.Now)}
	s.Uses, s.Done, s.Moving = nil, nil, nil
	var moves []Job
	if s.Schema != to.Schema {
		s.Moving, moves = &to, p.Definition.DowngradeTasks
		if s.Schema < to.Schema {
			moves = p.Definition.UpgradeTasks
			wait.Params = map[string]string{atLeast: p.Running.String()} // an older one would write the older form
		}
	} else {
		s.Version = to.Version
	}
	s.Tasks = []Task{wait}
	for _, j := range slices.Concat(moves, jobs) {
		s.Tasks = append(s.Tasks, Task{Kind: j.Kind, Name: j.Name, Params: j.Params})
	}
}

// apply records the outcome of the first task. If it completes the last task, the same
// write changes the state.
func (p *pass) apply(first Task, o Outcome) {
	s := &p.f.Status
	o.Message, o.Names = line(o.Message), kept(o.Names)
	other := o.Message != first.Message || o.Remaining != first.Remaining || !slices.Equal(o.Names, first.Names)
	if other {
		first.Attempts++
	}
	first.Message, first.Remaining, first.Names = o.Message, max(o.Remaining, 0), o.Names
	if o.reopen {
		first.Since, s.Uses = stamp(p.Now), nil
	}
	s.Tasks[0] = first
	if !o.Done || o.Remaining > 0 {
		return
	}
	s.Tasks = s.Tasks[1:]
	s.Done = finished(s.Done, Done{Kind: first.Kind, Name: first.Name, Attempts: first.Attempts, Message: first.Message, Reporters: o.reporters})
	if len(s.Tasks) > 0 {
		return
	}
	if late := p.oldUses(); len(late) > 0 {
		// A program reported the old value while the other tasks ran.
		s.Tasks = []Task{{Kind: WaitForUses, Name: string(WaitForUses), Since: stamp(p.Now), Message: line("waiting again: " + listed(late) + " reported the old value")}}
		s.Uses = nil
		return
	}
	p.complete()
}

// finished adds a completed task; it replaces an earlier entry of the same task.
func finished(done []Done, d Done) []Done {
	if i := slices.IndexFunc(done, func(o Done) bool { return o.Kind == d.Kind && o.Name == d.Name }); i >= 0 {
		done[i] = d
		return done
	}
	return append(done, d)
}

// complete ends a transition after its last task.
func (p *pass) complete() {
	s := &p.f.Status
	if s.Moving != nil {
		s.Version, s.Schema, s.Moving = s.Moving.Version, s.Moving.Schema, nil
	}
	done := told(s.Done)
	s.Done, s.Tasks = nil, nil
	switch s.State {
	case TurningOn:
		s.Enforced, s.Preparing = s.Preparing, Scope{}
		p.record(On, "all tasks are done", done)
	case TurningOff:
		s.Preparing = Scope{}
		p.record(Off, "all tasks are done", done)
	}
}

// record changes the state, and adds the transition to the history, to be signed.
func (p *pass) record(to State, reason string, tasks []featuretransition.Task) {
	s, m := &p.f.Status, p.f.Metadata
	from := s.State
	s.State, s.Number = to, s.Number+1
	s.History = append(s.History, Entry{Transition: featuretransition.Predicate{
		Namespace: m.Namespace, Name: m.Name, Number: s.Number, From: string(from), To: string(to), At: stamp(p.Now),
		Enforced: s.Enforced, Preparing: s.Preparing, Reconciler: p.Reconciler, Version: p.Running.String(), Reason: reason, Tasks: tasks, Trace: p.Trace,
	}})
	for len(s.History) > maxHistory || len(s.History) > 1 && sizeOf(s.History) > maxHistorySize {
		s.History = slices.Clone(s.History[1:]) // all older ones are signed
	}
}

// sizeOf is the approximate size of a history in the object.
func sizeOf(h []Entry) int {
	raw, err := json.Marshal(h)
	if err != nil {
		panic("feature: " + err.Error()) // every field can be marshalled
	}
	return len(raw)
}

// Signed records the name of the statement about a transition.
func Signed(f Feature, number int, statement string) (Feature, error) {
	f = f.clone()
	for i, e := range f.Status.History {
		if e.Transition.Number == number {
			f.Status.History[i].Statement = statement
			return f, f.Validate()
		}
	}
	return Feature{}, fmt.Errorf("feature %s: no transition %d in the history", f.Key(), number)
}

// union covers everything that either scope covers.
func union(a, b Scope) Scope {
	if a.Everything || b.Everything {
		return Scope{Everything: true}
	}
	return Scope{Repositories: slice.Unique(slices.Concat(a.Repositories, b.Repositories))}
}

func todo(tasks []Task) []featuretransition.Task {
	return slice.Map(tasks, func(t Task) featuretransition.Task { return featuretransition.Task{Kind: string(t.Kind), Name: t.Name} })
}

func told(done []Done) []featuretransition.Task {
	return slice.Map(done, func(d Done) featuretransition.Task {
		return featuretransition.Task{Kind: string(d.Kind), Name: d.Name, Attempts: d.Attempts, Message: d.Message, Reporters: d.Reporters}
	})
}
