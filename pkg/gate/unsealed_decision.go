package gate

import (
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// decision is what collectors that do not return facts yet write to.
type decision struct {
	Request
	v       *verdict.Verdict
	bad     map[string]bool
	hearing *policy.Hearing
}

func (d *decision) add(f verdict.Finding) {
	d.bad[f.Subject] = true
	d.v.Add(f)
}

func (d *decision) fail(name string, err error) { d.add(verdict.FindingOf(name, err)) }

func (d *decision) leave(what ...string) { d.v.Scope.Left = append(d.v.Scope.Left, what...) }

func (d *decision) comparesAll() bool {
	d.v.Scope.Digests = d.digestsCompared()
	return len(d.v.Scope.Digests) > 1
}
