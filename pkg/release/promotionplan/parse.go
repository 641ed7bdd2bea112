package promotionplan

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/address"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxPlan is the largest saved plan: that of a million edges has some 200 MB.
const maxPlan = 512 << 20

// Parse reads a plan as [Plan.JSON] wrote it. Only the canonical form is
// accepted: a plan that was changed or written by hand has another digest than
// the reviewed one.
func Parse(raw []byte) (Plan, error) {
	var p Plan
	if err := strictjson.Unmarshal(raw, &p, strictjson.MaxSize(maxPlan)); err != nil {
		return Plan{}, verdict.Wrap(verdict.ConfigParse, "plan", err)
	}
	if p.Schema != Schema {
		return Plan{}, verdict.Refuse(verdict.ConfigParse, "plan", "the plan has schema %q, want %s", p.Schema, Schema)
	}
	for _, e := range p.Edges {
		if e.Route < 0 || e.Route >= len(p.Routes) {
			return Plan{}, verdict.Refuse(verdict.ConfigParse, "plan", "an edge names route %d, and there are %d", e.Route, len(p.Routes))
		}
	}
	for _, f := range p.Files {
		if f.Store < 0 || f.Store >= len(p.Stores) {
			return Plan{}, verdict.Refuse(verdict.ConfigParse, "plan", "a file names store %d, and there are %d", f.Store, len(p.Stores))
		}
	}
	if !bytes.Equal(p.JSON(), raw) || !p.isOrdered() || len(p.Edges)+len(p.Files) == 0 {
		return Plan{}, verdict.Refuse(verdict.ConfigParse, "plan", "the plan was changed after it was made").Advise("make the plan again, and do not edit it")
	}
	return p, p.check()
}

// isOrdered reports whether everything is in the order of planning, once. All
// later checks, for conflicts too, depend on that.
func (p Plan) isOrdered() bool {
	other := func(name string) bool {
		canonical, err := address.Canonical(name)
		return err != nil || canonical != name
	}
	for _, r := range p.Routes {
		if p.Release == nil && (other(r.Source) || slices.ContainsFunc(r.Destinations, other)) {
			return false // two spellings of one place would hide a conflict
		}
		if len(slices.Compact(slices.Sorted(slices.Values(r.Destinations)))) != len(r.Destinations) {
			return false
		}
	}
	for i := 1; i < len(p.Edges); i++ {
		a, b := p.Edges[i-1], p.Edges[i]
		if cmp.Or(cmp.Compare(a.Route, b.Route), cmp.Compare(a.Image, b.Image), cmp.Compare(a.Digest.Hex(), b.Digest.Hex())) >= 0 {
			return false
		}
	}
	for i := 1; i < len(p.Files); i++ {
		a, b := p.Files[i-1], p.Files[i]
		if cmp.Or(cmp.Compare(a.Store, b.Store), cmp.Compare(a.Name, b.Name)) >= 0 {
			return false
		}
	}
	return true
}
