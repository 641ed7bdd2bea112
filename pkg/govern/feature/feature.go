// Package feature defines features (requirements of a gate, or behaviours, that can be
// turned on and off safely) and the rules by which their state changes.
//
// A [Feature] has a desired and an actual state. The actual one is Off, TurningOn, On
// or TurningOff, and a gate does accordingly: nothing, warn, require, warn
// ([Feature.Mode]). A transition consists of tasks, which are stored in the object: the
// first waits until every program that uses the feature has reported the new value;
// others clean up or audit existing objects, or hold until something is gone. The state
// changes with the write that removes the last task, and with no other.
//
//	step, err := feature.Next(feature.Input{Feature: f, Definition: d, …})
//	…
//	step.Feature // to be stored, if step.Changed
//	step.Run     // the task to run now, if there is one
//
// [Next] is a pure function that alone decides when a state changes; package reconcile
// runs tasks and stores objects. Three rules protect against other writers to the store,
// and against jobs that run rarely:
//
//   - A wait ends only if every expected reporter reported the new value within one
//     window, and none the old value. A missing report does not count.
//   - There is no transition from TurningOn to Off, or from TurningOff to On: a
//     transition that was begun may be half done, and is undone by tasks of its own.
//   - A signed policy can set a minimum mode for a feature. No state in a store lowers it.
//
// A [Registry] is the table of the features that a program knows. It is made of
// [Namespace] values, each with one owner; there is no global registry.
//
// Other projects should not import this package: it changes without notice.
package feature

import (
	"cmp"
	"slices"
	"time"

	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/address"
)

const (
	// APIVersion is in every object, with Kind.
	APIVersion = "waybill/v1alpha1"
	// documentKind is the kind of the object.
	documentKind = "Feature"
)

// State is the state of a feature.
type State string

// The states. A desired state is On or Off, or "" for the default.
const (
	Off        State = featuretransition.Off        // Off: not required.
	TurningOn  State = featuretransition.TurningOn  // TurningOn: a missing requirement causes a warning.
	On         State = featuretransition.On         // On: required.
	TurningOff State = featuretransition.TurningOff // TurningOff: a missing requirement causes a warning.
)

// IsSteady reports whether a state is On or Off.
func (s State) IsSteady() bool { return s == On || s == Off }

// goal is the steady state that a state is or leads to.
func (s State) goal() State {
	if s == On || s == TurningOn {
		return On
	}
	return Off
}

// Scope is where a feature applies: everywhere, or some repositories with everything
// below them. The zero Scope is nowhere.
type Scope = featuretransition.Scope

// Covers reports whether a repository is in a scope, comparing canonical addresses. A
// repository without a canonical address is in every scope but the empty one.
func Covers(s Scope, repository string) bool {
	return s.Everything || slices.ContainsFunc(s.Repositories, func(r string) bool { return address.Covers(r, repository) })
}

// Select returns the repositories that a scope covers, each once and sorted, and the
// parts of the scope that cover none of them: they are misspelt, or not used yet.
func Select(s Scope, repositories []string) (covered, without []string) {
	covered = slice.Filter(repositories, func(r string) bool { return Covers(s, r) })
	slices.Sort(covered)
	for _, part := range s.Repositories {
		one := Scope{Repositories: []string{part}}
		if !slices.ContainsFunc(covered, func(r string) bool { return Covers(one, r) }) {
			without = append(without, part)
		}
	}
	return slices.Compact(covered), without
}

// within reports whether outer covers everything that inner covers.
func within(inner, outer Scope) bool {
	if inner.Everything {
		return outer.Everything
	}
	return !slices.ContainsFunc(inner.Repositories, func(r string) bool { return !Covers(outer, r) })
}

// sameScope reports whether two scopes are equal.
func sameScope(a, b Scope) bool {
	return a.Everything == b.Everything && slices.Equal(a.Repositories, b.Repositories)
}

// Key names a feature.
type Key struct{ Namespace, Name string }

// String is namespace/name.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Short is the name without Waybill's own namespace.
func (k Key) Short() string {
	if k.Namespace == CoreNamespace {
		return k.Name
	}
	return k.String()
}

// Feature is the object as it is stored. Reading it only parses it; the signed
// statement about the transition proves its state.
type Feature struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       Spec     `json:"spec"`
	Status     Status   `json:"status"`
}

// Metadata says which feature it is, and which version of the object.
type Metadata struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Generation grows by one with each write. Stores set it.
	Generation int `json:"generation"`
}

// Spec is the desired state.
type Spec struct {
	// Desired is On or Off, or "" for the default of the running version.
	Desired State `json:"desired,omitempty"`
	// Scope is where the feature should be On.
	Scope Scope `json:"scope"`
	// Dynamic says that the desired state may be changed in the store. The
	// reconciler sets this, and resets the desired state of other features.
	Dynamic bool `json:"dynamic,omitempty"`
	// PrepareFor is the version of the program that must be able to read the
	// data before it is started; "" for the running one.
	PrepareFor string `json:"prepareFor,omitempty"`
}

// Status is the actual state. Only the reconciler writes it, except Uses.
type Status struct {
	State State `json:"state"`
	// Number counts the transitions.
	Number int `json:"number"`
	// Enforced is where the feature is required, and Preparing where it warns.
	Enforced  Scope `json:"enforced"`
	Preparing Scope `json:"preparing"`

	Default State  `json:"default"`
	Stage   string `json:"stage"`
	// Version is the version of the program that the data are written for, and
	// Schema the number of their form.
	Version string `json:"version"`
	Schema  int    `json:"schema"`
	// LastKnownVersion is the last version of the program that knew the feature.
	LastKnownVersion string `json:"lastKnownVersion"`
	// Forgotten says that no program has known it for three minor versions.
	Forgotten bool `json:"forgotten,omitempty"`

	Uses       []Use       `json:"uses,omitempty"`
	Tasks      []Task      `json:"tasks,omitempty"`
	Moving     *Move       `json:"moving,omitempty"`
	Done       []Done      `json:"done,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
	History    []Entry     `json:"history,omitempty"`
}

// Use is a report of one program about its value of the feature.
type Use struct {
	Identity string `json:"identity"`
	Version  string `json:"version"`
	// Checked says that the program used the feature; otherwise the value is what
	// it would have used.
	Checked  bool      `json:"checked"`
	Value    bool      `json:"value"`
	LastSeen time.Time `json:"lastSeen"`
}

// TaskKind is how a task works.
type TaskKind string

// The kinds of tasks.
const (
	WaitForUses TaskKind = featuretransition.WaitForUses // WaitForUses: until every expected reporter has the new value.
	Sweep       TaskKind = "Sweep"                       // Sweep: visit everything in the scope, to clean up or audit.
	Hold        TaskKind = "Hold"                        // Hold: until something is gone; the task does not remove it.
)

// Task is a remaining task of a transition. Tasks are idempotent.
type Task struct {
	Kind   TaskKind          `json:"kind"`
	Name   string            `json:"name"`
	Params map[string]string `json:"params,omitempty"`
	// Attempts counts the attempts with a new result; Remaining, Message and Names
	// are of the last. Names are the objects that remain, as many as fit.
	Attempts  int      `json:"attempts,omitempty"`
	Remaining int      `json:"remaining,omitempty"`
	Message   string   `json:"message,omitempty"`
	Names     []string `json:"names,omitempty"`
	// Since is the start of the window of a wait.
	Since time.Time `json:"since,omitzero"`
}

// Done is a completed task of the current transition.
type Done struct {
	Kind     TaskKind `json:"kind"`
	Name     string   `json:"name"`
	Attempts int      `json:"attempts,omitempty"`
	Message  string   `json:"message,omitempty"`
	// Reporters are the reporters that a wait waited for.
	Reporters []string `json:"reporters,omitempty"`
}

// Move is a conversion of the data to another form.
type Move struct {
	Version string `json:"version"`
	Schema  int    `json:"schema"`
}

// The types of conditions.
const (
	Dangling        = "Dangling"        // Dangling: the feature is Off, and objects still refer to it.
	SafeToUpgrade   = "SafeToUpgrade"   // SafeToUpgrade: the next minor version can be started.
	SafeToDowngrade = "SafeToDowngrade" // SafeToDowngrade: the previous minor version can be started.
)

// Condition is a computed fact about a feature. Status is True, False or Unknown.
type Condition struct {
	Type    string   `json:"type"`
	Status  string   `json:"status"`
	Message string   `json:"message,omitempty"`
	Count   int      `json:"count,omitempty"`
	Sample  []string `json:"sample,omitempty"`
}

// Trace is the trace of the run that made a transition.
type Trace = featuretransition.Trace

// Entry is one transition, with its statement once that is signed.
type Entry struct {
	Transition featuretransition.Predicate `json:"transition"`
	// Statement is the name of the statement; "" until it is signed.
	Statement string `json:"statement,omitempty"`
}

// Key names the feature.
func (f Feature) Key() Key { return Key{f.Metadata.Namespace, f.Metadata.Name} }

// Effective is the state of the feature for a gate: the subject of the statement about
// its last transition.
func (f Feature) Effective() featuretransition.State {
	s := f.Status
	return featuretransition.State{Namespace: f.Metadata.Namespace, Name: f.Metadata.Name, Number: s.Number, State: string(s.State), Enforced: s.Enforced, Preparing: s.Preparing}
}

// Unsigned is the first transition without a statement, and its index in the history,
// if there is one.
func (f Feature) Unsigned() (featuretransition.Predicate, int, bool) {
	for i, e := range f.Status.History {
		if e.Statement == "" {
			return e.Transition, i, true
		}
	}
	return featuretransition.Predicate{}, 0, false
}

// LostAdvice says what to do about a missing statement. It needs a deliberate edit: the
// reconciler never signs a transition a second time by itself.
const LostAdvice = "restore the statement from a copy of the site; without a copy, and if the history is right, remove the name of the statement from the history of the feature: the next pass of waybill feature reconcile signs it again, if this transition is still wanted"

// Lost is a statement in the history about a transition after the last signed one; ""
// if there is none.
func (f Feature) Lost(last int) string {
	return slice.First(f.Status.History, func(e Entry) bool { return e.Transition.Number > last && e.Statement != "" }).Statement
}

// Condition finds a condition by its type; Unknown if it was never computed.
func (f Feature) Condition(kind string) Condition {
	for _, c := range f.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return Condition{Type: kind, Status: "Unknown"}
}

// clone copies all lists that are modified.
func (f Feature) clone() Feature {
	s := &f.Status
	s.Uses, s.Tasks, s.Done = slices.Clone(s.Uses), slices.Clone(s.Tasks), slices.Clone(s.Done)
	s.Conditions, s.History = slices.Clone(s.Conditions), slices.Clone(s.History)
	return f
}

// Wants is the desired state, or the default if none is set.
func (f Feature) Wants() State {
	return cmp.Or(f.Spec.Desired, f.Status.Default)
}
