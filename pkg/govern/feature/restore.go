package feature

import (
	"time"

	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// LastSigned is a transition about which a statement was signed, and where that is.
// Number 0 is none.
type LastSigned struct {
	Said      featuretransition.Predicate
	Statement string
}

// Restore is a feature as the last signed transition left it, for a store that
// lost it, or in which an older one was put in its place. Nobody signed more than
// that: on its way to another state, all that is to be done there is to be done
// again. A dynamic feature is wanted as it was.
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
