// Package featuretransition is the encoding of the feature transition
// predicate, version 1: a requirement changed its state or its scope, after
// these tasks were done.
//
//	s, err := featuretransition.New(p)
//	x, err := featuretransition.Parse(evidence.Statement())
//
// The README beside this file is the specification and schema.json its JSON
// Schema. pkg/govern/feature decides when a feature changes its state, and a
// policy who may sign the statement.
package featuretransition

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/oneline"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/address"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// PredicateType is the type of the predicate.
const PredicateType = "https://github.com/waybill-release/waybill/attestations/feature-transition/v1"

// maxSize limits the predicate.
const maxSize = 1 << 20

// The states of a feature, which determine what a gate does.
const (
	Off        = "Off"        // Off: nothing is required.
	TurningOn  = "TurningOn"  // TurningOn: the future requirement is a warning.
	On         = "On"         // On: the requirement is enforced.
	TurningOff = "TurningOff" // TurningOff: the former requirement is a warning.
)

// WaitForUses is the kind of the first task of every transition.
const WaitForUses = "WaitForUses"

const (
	maxTasks        = 64
	maxRepositories = 1000
	maxReporters    = 1000
	maxText         = 1024
)

// Predicate says which feature changed from which state to which, when, by whom
// and why.
type Predicate struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Number is one more than that of the transition before.
	Number int       `json:"number"`
	From   string    `json:"from"`
	To     string    `json:"to"`
	At     time.Time `json:"at"`
	// Enforced is where the feature is required from now on, and Preparing
	// where its failure is a warning.
	Enforced  Scope `json:"enforced"`
	Preparing Scope `json:"preparing"`
	// Reconciler made the transition, and Version is the version of its
	// program.
	Reconciler string `json:"reconciler"`
	Version    string `json:"version"`
	Reason     string `json:"reason"`
	// Tasks are those that remain before a transitional state ends, or those
	// that were done to reach this state.
	Tasks []Task `json:"tasks,omitempty"`
	Trace *Trace `json:"trace,omitempty"`
}

// Scope is a set of repositories: everything, some with everything below them,
// or none.
type Scope struct {
	Everything   bool     `json:"everything,omitempty"`
	Repositories []string `json:"repositories,omitempty"`
}

// Task is one task of a transition.
type Task struct {
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	Attempts int    `json:"attempts,omitempty"`
	Message  string `json:"message,omitempty"`
	// Reporters are those that were waited for and reported the new value.
	Reporters []string `json:"reporters,omitempty"`
}

// Trace identifies the run of the transition.
type Trace struct {
	TraceID        string `json:"traceId"`
	SpanID         string `json:"spanId,omitempty"`
	InitialTraceID string `json:"initialTraceId,omitempty"`
}

// State is what a gate needs to know about a feature: its state, its scope, and
// the number of the transition. It is the subject of the statement.
type State struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Number    int    `json:"number"`
	State     string `json:"state"`
	Enforced  Scope  `json:"enforced"`
	Preparing Scope  `json:"preparing"`
}

// Bytes is the encoding of the state that a statement covers: its JSON, in this
// order of fields, without white space.
func (s State) Bytes() []byte {
	raw, err := json.Marshal(s)
	if err != nil {
		panic("featuretransition: " + err.Error()) // none of its fields can fail to encode
	}
	return raw
}

// State is the new state after the transition.
func (p Predicate) State() State {
	return State{Namespace: p.Namespace, Name: p.Name, Number: p.Number, State: p.To, Enforced: p.Enforced, Preparing: p.Preparing}
}

// Subject is the name of the subject: namespace/name.
func (p Predicate) Subject() string { return p.Namespace + "/" + p.Name }

var (
	namespaces = pattern.Lazy(`\A[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\z`)
	names      = pattern.Lazy(`\A[A-Z][A-Za-z0-9]{0,62}\z`)
	kinds      = pattern.Lazy(`\A(?:WaitForUses|Sweep|Hold)\z`)
	repository = pattern.Lazy(`\A[a-z0-9]+(?:[._:/-]{1,2}[a-z0-9]+)*\z`)
	traceID    = pattern.Lazy(`\A[0-9a-f]{32}\z`)
	spanID     = pattern.Lazy(`\A[0-9a-f]{16}\z`)
)

// IsNamespace reports whether text is the name of a namespace.
func IsNamespace(text string) bool { return namespaces().MatchString(text) }

// IsName reports whether text is the name of a feature.
func IsName(text string) bool { return names().MatchString(text) }

// may reports whether a feature may change from one state to another. Both are
// equal if only the scope changes. A steady state never changes directly to the
// other one, or back: a transition that was begun is undone by its own tasks.
func may(from, to string) bool {
	switch from {
	case Off:
		return to == TurningOn
	case TurningOn:
		return to == TurningOn || to == On || to == TurningOff
	case On:
		return to == On || to == TurningOn || to == TurningOff
	case TurningOff:
		return to == Off || to == TurningOn
	}
	return false
}

// Validate refuses an impossible transition, and one without its reasons.
func (p Predicate) Validate() error {
	_, versioned := version.Parse(p.Version)
	switch {
	case !IsNamespace(p.Namespace) || !IsName(p.Name):
		return refuse("feature %q in namespace %q: want a name such as RequireProvenance, in a namespace of lower-case letters, digits and -", p.Name, p.Namespace)
	case p.Number < 1:
		return refuse("number %d: numbers start at 1, and each transition has the next one", p.Number)
	case !may(p.From, p.To):
		return refuse("from %q to %q: not an allowed transition", p.From, p.To)
	case p.At.IsZero():
		return refuse("at: want the time of the transition")
	case !oneline.Is(p.Reconciler, maxText) || !oneline.Is(p.Reason, maxText):
		return refuse("reconciler and reason: want a line each")
	case versioned != nil:
		return refuse("version: %v", versioned)
	}
	for _, s := range []Scope{p.Enforced, p.Preparing} {
		if err := s.Validate(); err != nil {
			return err
		}
	}
	if err := p.scoped(); err != nil {
		return err
	}
	if err := p.tasked(); err != nil {
		return err
	}
	return p.Trace.validate()
}

// scoped refuses scopes that the new state cannot have.
func (p Predicate) scoped() error {
	switch {
	case p.To == On && p.Enforced.IsNone():
		return refuse("the state is On, but the feature is enforced nowhere")
	case (p.To == Off || p.To == TurningOff) && !p.Enforced.IsNone():
		return refuse("the state is %s, but the feature is still enforced", p.To)
	case (p.To == TurningOn || p.To == TurningOff) && p.Preparing.IsNone():
		return refuse("the state is %s, but its scope is empty", p.To)
	case (p.To == On || p.To == Off) && !p.Preparing.IsNone():
		return refuse("the state is %s, but something is still preparing", p.To)
	}
	return nil
}

// tasked refuses a transition without its required task.
func (p Predicate) tasked() error {
	if len(p.Tasks) > maxTasks {
		return refuse("%d tasks: want at most %d", len(p.Tasks), maxTasks)
	}
	for _, t := range p.Tasks {
		switch {
		case !kinds().MatchString(t.Kind) || !IsName(t.Name):
			return refuse("task %q of kind %q: want WaitForUses, Sweep or Hold, and a name such as CoverageAudit", t.Name, t.Kind)
		case t.Attempts < 0 || t.Message != "" && !oneline.Is(t.Message, maxText) || len(t.Reporters) > maxReporters:
			return refuse("task %s: want a number of attempts, a message of one line, and at most %d reporters", t.Name, maxReporters)
		}
		if slices.ContainsFunc(t.Reporters, func(r string) bool { return !oneline.Is(r, maxText) }) {
			return refuse("task %s: a reporter without a name", t.Name)
		}
	}
	if p.From == On && p.To == On { // a narrower scope needs no task
		if len(p.Tasks) != 0 {
			return refuse("a narrower scope needs no tasks, but some are listed")
		}
		return nil
	}
	waits := func(t Task) bool { return t.Kind == WaitForUses }
	first := slices.IndexFunc(p.Tasks, waits)
	switch done := p.To == On || p.To == Off; {
	case first != 0:
		return refuse("the first task must be WaitForUses")
	case done && !slices.ContainsFunc(p.Tasks, func(t Task) bool { return waits(t) && len(t.Reporters) > 0 }):
		return refuse("the state is %s, but no reporter is listed", p.To)
	}
	return nil
}

// IsNone reports whether the scope covers nothing.
func (s Scope) IsNone() bool { return !s.Everything && len(s.Repositories) == 0 }

// Validate refuses a scope that could be read in two ways.
func (s Scope) Validate() error {
	switch {
	case s.Everything && len(s.Repositories) > 0:
		return refuse("scope: everything, or repositories, not both")
	case len(s.Repositories) > maxRepositories:
		return refuse("scope: %d repositories, want at most %d", len(s.Repositories), maxRepositories)
	case !slices.IsSorted(s.Repositories):
		return refuse("scope: the repositories are not sorted")
	}
	for i, r := range s.Repositories {
		if _, err := address.Canonical(r); err != nil || len(r) > maxText || !repository().MatchString(r) || i > 0 && s.Repositories[i-1] == r {
			return refuse("scope: repository %q: want host/path in lower case, each once", r)
		}
	}
	return nil
}

func (t *Trace) validate() error {
	if t != nil && (!traceID().MatchString(t.TraceID) || t.SpanID != "" && !spanID().MatchString(t.SpanID) || t.InitialTraceID != "" && !traceID().MatchString(t.InitialTraceID)) {
		return refuse("trace: want ids of 32 and 16 lower-case hex digits")
	}
	return nil
}

// New makes the statement of a transition. Equal transitions are equal bytes.
func New(p Predicate) (intoto.Statement, error) {
	subject := intoto.Subject{Name: p.Subject(), Digests: digest.SetOf(p.State().Bytes())}
	return intoto.NewFor(Parse, PredicateType, []intoto.Subject{subject}, p)
}

// Parse parses the statement strictly. Its subject is the new state in the
// predicate. It is not verified.
func Parse(s intoto.Statement) (p Predicate, err error) {
	s, err = s.DecodeStrict(PredicateType, "feature transition", "a feature transition", maxSize, &p)
	if err != nil {
		return Predicate{}, err
	}
	subjects, want := s.Subjects(), digest.SetOf(p.State().Bytes())
	if len(subjects) != 1 || subjects[0].Name != p.Subject() || subjects[0].Digests != want {
		return Predicate{}, refuse("want one subject, %s, with the digests of the new state", p.Subject())
	}
	return p, nil
}

func refuse(format string, args ...any) error {
	return verdict.Refuse(verdict.StatementParse, "feature transition", "%s", fmt.Sprintf(format, args...))
}
