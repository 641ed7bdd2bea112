package feature

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Stage is how finished a feature is.
type Stage string

// The stages.
const (
	Alpha      Stage = "alpha"      // Alpha is experimental.
	Beta       Stage = "beta"       // Beta is complete, or nearly.
	GA         Stage = "ga"         // GA is finished.
	Deprecated Stage = "deprecated" // Deprecated will be removed.
)

// CoreNamespace is the namespace of Waybill's own features.
const CoreNamespace = "waybill"

// Definition describes a feature: the one place where its author names the tasks of
// switching, upgrading and downgrading it. Only Name, About and one version are required.
type Definition struct {
	Name  string
	About string // what it requires or does, in one line
	// Requirement says that a gate enforces it, and warns during a transition.
	// Otherwise the feature switches what programs do.
	Requirement bool
	// Versions are sorted; each is valid from a minor version of the program on.
	Versions []Version
	// Tasks of the four transitions. The wait for uses comes before them and need
	// not be named. If the schema changes between two versions, tasks for both
	// directions are required.
	OnTasks, OffTasks            []Job
	UpgradeTasks, DowngradeTasks []Job
	// Dynamic says that a running program may follow its state in the store.
	// RequiresFlags are flags that it needs; such a feature is never dynamic,
	// because the store cannot set flags.
	Dynamic       bool
	RequiresFlags []string
	// Keys are its additions to documents and help, which are hidden while it is
	// Off.
	Keys []string
	// Pristine claims that turning it on, using it and turning it off leaves no trace.
	Pristine bool
}

// Version describes a feature from one version of the program on.
type Version struct {
	Since   version.Version
	Stage   Stage
	Default State
	// Schema is the number of the form of its data.
	Schema int
	// Removed says that the program does not know it from this version on.
	Removed bool
}

// Job is a task in a definition.
type Job struct {
	Kind   TaskKind
	Name   string
	Params map[string]string
}

// Namespace has the features of one owner.
type Namespace struct {
	Name     string
	Features []Definition
}

// Registry has the features that a program knows. The zero Registry has none.
type Registry struct{ byKey map[Key]Definition }

// NewRegistry makes the table of all namespaces. Each has one owner, so a namespace that
// is given twice is refused.
func NewRegistry(namespaces ...Namespace) (Registry, error) {
	r := Registry{byKey: map[Key]Definition{}}
	seen := map[string]bool{}
	for _, ns := range namespaces {
		switch {
		case !featuretransition.IsNamespace(ns.Name):
			return Registry{}, usage("namespace %q: want lower-case letters, digits and -", ns.Name)
		case seen[ns.Name]:
			return Registry{}, usage("namespace %q has two owners: register the features of a third party in a namespace of its own", ns.Name)
		case len(ns.Features) == 0:
			return Registry{}, usage("namespace %q has no features", ns.Name)
		}
		seen[ns.Name] = true
		folded := map[string]bool{}
		for _, d := range ns.Features {
			if err := d.validate(); err != nil {
				return Registry{}, usage("feature %s/%s: %w", ns.Name, d.Name, err)
			}
			if low := strings.ToLower(d.Name); folded[low] {
				return Registry{}, usage("feature %s/%s: another name differs only in upper and lower case", ns.Name, d.Name)
			}
			folded[strings.ToLower(d.Name)] = true
			r.byKey[Key{ns.Name, d.Name}] = d
		}
	}
	return r, nil
}

func usage(format string, args ...any) error {
	return &verdict.UsageError{Err: fmt.Errorf(format, args...)}
}

// validate refuses an incomplete or contradictory definition.
func (d Definition) validate() error {
	switch {
	case !featuretransition.IsName(d.Name):
		return fmt.Errorf("want a name such as RequireProvenance")
	case !isLine(d.About):
		return fmt.Errorf("want a description in one line")
	case d.Dynamic && len(d.RequiresFlags) > 0:
		return fmt.Errorf("dynamic, but needs %s: the store cannot set flags", strings.Join(d.RequiresFlags, ", "))
	case len(d.Versions) == 0 || d.Versions[0].Removed:
		return fmt.Errorf("want the first version that knows the feature")
	}
	changes := false
	for i, v := range d.Versions {
		switch {
		case v.Since.IsZero():
			return fmt.Errorf("version %d: want the version of the program", i+1)
		case i > 0 && !d.Versions[i-1].Since.Less(v.Since):
			return fmt.Errorf("version %s: versions are not sorted", v.Since)
		case v.Removed:
			continue
		case !slices.Contains([]Stage{Alpha, Beta, GA, Deprecated}, v.Stage) || !v.Default.IsSteady() || v.Schema < 0:
			return fmt.Errorf("version %s: want a stage, a default of On or Off, and a schema", v.Since)
		}
		changes = changes || v.Schema != d.Versions[0].Schema
	}
	if changes && (len(d.UpgradeTasks) == 0 || len(d.DowngradeTasks) == 0) {
		return fmt.Errorf("the schema changes: want tasks for an upgrade and for a downgrade")
	}
	if len(d.Jobs()) > maxTasks/2 {
		return fmt.Errorf("%d tasks: want at most %d", len(d.Jobs()), maxTasks/2)
	}
	for _, j := range d.Jobs() {
		if j.Kind != Sweep && j.Kind != Hold || !featuretransition.IsName(j.Name) {
			return fmt.Errorf("task %q of kind %q: want Sweep or Hold, and a name such as CoverageAudit; the wait for uses is added automatically", j.Name, j.Kind)
		}
	}
	return nil
}

// Jobs are all tasks of a feature, of every transition.
func (d Definition) Jobs() []Job {
	return slices.Concat(d.OnTasks, d.OffTasks, d.UpgradeTasks, d.DowngradeTasks)
}

// At describes the feature in one version of the program, and reports whether that knows
// it.
func (d Definition) At(v version.Version) (Version, bool) {
	var found Version
	for _, candidate := range d.Versions {
		if notAfter(candidate.Since, v) {
			found = candidate
		}
	}
	return found, !found.Since.IsZero() && !found.Removed
}

// notAfter compares minor versions: patches and pre-releases change no feature.
func notAfter(a, b version.Version) bool {
	return a.Major() < b.Major() || a.Major() == b.Major() && a.Minor() <= b.Minor()
}

// Keys lists the features, sorted.
func (r Registry) Keys() []Key {
	return slices.SortedFunc(maps.Keys(r.byKey), func(a, b Key) int { return strings.Compare(a.String(), b.String()) })
}

// Definition finds a feature.
func (r Registry) Definition(k Key) (Definition, bool) {
	d, ok := r.byKey[k]
	return d, ok
}

// LastSigned is a signed transition, with the name of its statement. Number 0 means none.
type LastSigned struct {
	Said      featuretransition.Predicate
	Statement string
}

// Restore makes the object of a feature from its last signed transition, for a store that
// lost it, or has an older one. Only the transition is signed, so all tasks of an
// unfinished transition are repeated. A dynamic feature gets its desired state from the
// transition.
func (d Definition) Restore(last LastSigned, running version.Version, now time.Time) (Feature, error) {
	said := last.Said
	f, err := Announce(Key{said.Namespace, said.Name}, d, running)
	if err != nil {
		return Feature{}, err
	}
	s := &f.Status
	s.State, s.Number, s.Enforced, s.Preparing = State(said.To), said.Number, said.Enforced, said.Preparing
	s.History = []Entry{{Transition: said, Statement: last.Statement}}
	if scope := union(said.Enforced, said.Preparing); !scope.IsNone() {
		f.Spec.Scope = scope
	}
	if d.Dynamic {
		f.Spec.Desired = s.State.goal()
	}
	if by, err := version.Parse(said.Version); err == nil {
		if then, known := d.At(by); known {
			s.Version, s.Schema = said.Version, then.Schema
		}
	}
	p := pass{Input: Input{Definition: d, Running: running, Now: now}, f: f}
	switch s.State {
	case TurningOn:
		p.assemble(d.OnTasks)
	case TurningOff:
		p.assemble(d.OffTasks)
	}
	return p.f, p.f.Validate()
}
