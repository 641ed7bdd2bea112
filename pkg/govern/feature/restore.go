package feature

import (
	"time"

	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	"github.com/waybill-release/waybill/pkg/value/version"
)

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
