// Package feature is the word for "a requirement of a gate that can be switched
// on and off safely", and the rules by which one changes its state.
//
// A [Feature] has a desired and an actual state. The actual one is Off,
// TurningOn, On or TurningOff, and a gate does what it says: nothing, warn,
// require, warn ([Feature.Mode]). Between the steady states lie tasks, which are
// kept in the object: the first waits until everybody who uses the feature was
// seen with the new value, others sweep what exists or hold until something is
// gone. The state changes with the write that removes the last task, and with
// no other.
//
//	step, err := feature.Next(feature.Input{Feature: f, Definition: d, …})
//	…
//	step.Feature // to be stored, if step.Changed
//	step.Run     // the task to run now, if there is one
//
// [Next] is a pure function of what was read, so it is the whole truth about
// when a state changes; running tasks and storing objects is for others. Three
// rules are kept against a store that somebody else writes to, and against jobs
// that run rarely:
//
//   - A wait ends only if every expected reporter reported the new value in one
//     window and nobody the old one. Nobody's silence is consent.
//   - Nothing goes from TurningOn to Off, or from TurningOff to On: what was begun
//     may be half done, and is undone by tasks of its own.
//   - A [Floor] comes from a signed policy. No state in a store lowers it.
//
// A [Registry] is the table of the features that a program knows. It is built of
// [Namespace] values, each with one owner; there is no global one.
package feature

import (
	"slices"
	"time"

	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	"github.com/waybill-release/waybill/pkg/value/address"
)

const (
	// APIVersion and Kind stand in every object.
	APIVersion = "waybill/v1alpha1"
	// Kind names what the object is.
	Kind = "Feature"
)

// State is what a feature is in.
type State string

// The states. A desired state is On or Off, or "" for the default.
const (
	Off        State = featuretransition.Off        // Off: nothing is demanded.
	TurningOn  State = featuretransition.TurningOn  // TurningOn: what will be demanded is warned about.
	On         State = featuretransition.On         // On: it is demanded.
	TurningOff State = featuretransition.TurningOff // TurningOff: what was demanded is warned about.
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

// Scope is where a feature counts: everything, or some repositories and what
// lies beneath them. The zero Scope is nowhere.
type Scope = featuretransition.Scope

// Covers reports whether a repository is in a scope, whichever way the two are
// spelled. A scope that is nowhere covers nothing; every other one covers what
// has no canonical spelling.
func Covers(s Scope, repository string) bool {
	return s.Everything || slices.ContainsFunc(s.Repositories, func(r string) bool { return address.Covers(r, repository) })
}

// Select finds those of some repositories that a scope covers, each once and
// sorted, and the parts of the scope that cover none of them: they were
// misspelled, or are not in use yet.
func Select(s Scope, repositories []string) (covered, without []string) {
	for _, r := range repositories {
		if Covers(s, r) {
			covered = append(covered, r)
		}
	}
	slices.Sort(covered)
	for _, part := range s.Repositories {
		one := Scope{Repositories: []string{part}}
		if !slices.ContainsFunc(covered, func(r string) bool { return Covers(one, r) }) {
			without = append(without, part)
		}
	}
	return slices.Compact(covered), without
}

// within reports whether all that inner covers is covered by outer.
func within(inner, outer Scope) bool {
	if inner.Everything {
		return outer.Everything
	}
	return !slices.ContainsFunc(inner.Repositories, func(r string) bool { return !Covers(outer, r) })
}

// sameScope reports whether two scopes are one.
func sameScope(a, b Scope) bool {
	return a.Everything == b.Everything && slices.Equal(a.Repositories, b.Repositories)
}

// Key names a feature.
type Key struct{ Namespace, Name string }

// String is namespace/name.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Feature is the object as it is stored. Who reads one has parsed it; that its
// state was reached by a transition is proved by the statement about it.
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

// Spec is what is wanted.
type Spec struct {
	// Desired is On or Off, or "" for the default of the running version.
	Desired State `json:"desired,omitempty"`
	// Scope is where it is wanted.
	Scope Scope `json:"scope"`
	// Dynamic says that whoever may write the object may change what is wanted.
	// The reconciler sets it, and puts back what is wanted of any other.
	Dynamic bool `json:"dynamic,omitempty"`
	// PrepareFor is the version of the program for which the data are to be
	// made ready, before that is started; "" for the one that runs.
	PrepareFor string `json:"prepareFor,omitempty"`
}

// Status is what is. The reconciler alone writes it, but for the uses.
type Status struct {
	State State `json:"state"`
	// Number counts the transitions.
	Number int `json:"number"`
	// Enforced is where it is demanded, and Preparing where it is warned about.
	Enforced  Scope `json:"enforced"`
	Preparing Scope `json:"preparing"`

	Default State  `json:"default"`
	Stage   string `json:"stage"`
	// Version is that of the program by whose rules the data are written, and
	// Schema the number of their form.
	Version string `json:"version"`
	Schema  int    `json:"schema"`
	// LastKnownVersion is that of the program that knew the feature last.
	LastKnownVersion string `json:"lastKnownVersion"`
	// Forgotten says that no program knew it for three minor versions.
	Forgotten bool `json:"forgotten,omitempty"`

	Uses       []Use       `json:"uses,omitempty"`
	Tasks      []Task      `json:"tasks,omitempty"`
	Moving     *Move       `json:"moving,omitempty"`
	Done       []Done      `json:"done,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
	History    []Entry     `json:"history,omitempty"`
}

// Use is what one program found when it asked for the feature.
type Use struct {
	Identity string `json:"identity"`
	Version  string `json:"version"`
	// Checked says that it asked; else the value is what it would have found.
	Checked  bool      `json:"checked"`
	Value    bool      `json:"value"`
	LastSeen time.Time `json:"lastSeen"`
}

// TaskKind is how a task works.
type TaskKind string

// The kinds of tasks.
const (
	WaitForUses TaskKind = featuretransition.WaitForUses // WaitForUses: until everybody expected has the new value.
	Sweep       TaskKind = "Sweep"                       // Sweep: visit everything in the scope, and mend or audit it.
	Hold        TaskKind = "Hold"                        // Hold: until something is gone, which is not removed by it.
)

// Task is what is left to be done, in order. It is idempotent: one that was
// done before and is done again changes nothing.
type Task struct {
	Kind   TaskKind          `json:"kind"`
	Name   string            `json:"name"`
	Params map[string]string `json:"params,omitempty"`
	// Attempts counts those that ended otherwise than the one before; Remaining,
	// Message and Names are of the last. Names are of what remains, as many as
	// the object has room for.
	Attempts  int      `json:"attempts,omitempty"`
	Remaining int      `json:"remaining,omitempty"`
	Message   string   `json:"message,omitempty"`
	Names     []string `json:"names,omitempty"`
	// Since is when the window of a wait was opened.
	Since time.Time `json:"since,omitzero"`
}

// Done is a task that was done in the transition that is on its way.
type Done struct {
	Kind     TaskKind `json:"kind"`
	Name     string   `json:"name"`
	Attempts int      `json:"attempts,omitempty"`
	Message  string   `json:"message,omitempty"`
	// Reporters are those that a wait waited for.
	Reporters []string `json:"reporters,omitempty"`
}

// Move says that the data are on their way to another form.
type Move struct {
	Version string `json:"version"`
	Schema  int    `json:"schema"`
}

// The types of conditions.
const (
	Dangling        = "Dangling"        // Dangling: it is Off, and something still refers to it.
	SafeToUpgrade   = "SafeToUpgrade"   // SafeToUpgrade: the next minor version can be started.
	SafeToDowngrade = "SafeToDowngrade" // SafeToDowngrade: the previous minor version can be started.
)

// Condition is something that was computed about a feature. Status is True,
// False or Unknown.
type Condition struct {
	Type    string   `json:"type"`
	Status  string   `json:"status"`
	Message string   `json:"message,omitempty"`
	Count   int      `json:"count,omitempty"`
	Sample  []string `json:"sample,omitempty"`
}

// Trace is the run that a transition belongs to.
type Trace = featuretransition.Trace

// Entry is one transition, and the statement about it once that was signed.
type Entry struct {
	Transition featuretransition.Predicate `json:"transition"`
	// Statement names where the statement is; "" until it was signed.
	Statement string `json:"statement,omitempty"`
}

// Key names the feature.
func (f Feature) Key() Key { return Key{f.Metadata.Namespace, f.Metadata.Name} }

// Effective is what the state of the feature amounts to for a gate: the subject
// of the statement about its last transition.
func (f Feature) Effective() featuretransition.State {
	s := f.Status
	return featuretransition.State{Namespace: f.Metadata.Namespace, Name: f.Metadata.Name, Number: s.Number, State: string(s.State), Enforced: s.Enforced, Preparing: s.Preparing}
}

// Unsigned is the first transition about which no statement was signed, and
// its place in the history; or none.
func (f Feature) Unsigned() (featuretransition.Predicate, int, bool) {
	for i, e := range f.Status.History {
		if e.Statement == "" {
			return e.Transition, i, true
		}
	}
	return featuretransition.Predicate{}, 0, false
}

// LostAdvice is the next act where a statement is lost. Nobody makes it by
// mistake: the reconciler signs no transition a second time of its own accord.
const LostAdvice = "put the statement back from a copy of the site; if there is none, and the history is right, remove its name from the history of the feature, and the next pass of waybill feature reconcile signs it again, if it is the transition that is wanted now"

// Lost is the statement that the history names of a transition later than the
// last one that is signed; "" if there is none.
func (f Feature) Lost(last int) string {
	for _, e := range f.Status.History {
		if e.Transition.Number > last && e.Statement != "" {
			return e.Statement
		}
	}
	return ""
}

// Condition finds a condition by its type; one that was never computed is
// Unknown.
func (f Feature) Condition(kind string) Condition {
	for _, c := range f.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return Condition{Type: kind, Status: "Unknown"}
}

// Shows reports whether what the feature adds to documents and help is shown:
// not while it is Off.
func (f Feature) Shows() bool { return f.Status.State != Off }

// clone copies everything that is written to.
func (f Feature) clone() Feature {
	s := &f.Status
	s.Uses, s.Tasks, s.Done = slices.Clone(s.Uses), slices.Clone(s.Tasks), slices.Clone(s.Done)
	s.Conditions, s.History = slices.Clone(s.Conditions), slices.Clone(s.History)
	return f
}

// Wants is the steady state that is wanted: what the object says, or else the
// default.
func (f Feature) Wants() State {
	if f.Spec.Desired != "" {
		return f.Spec.Desired
	}
	return f.Status.Default
}
