package attacks

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// TestLevelOverAncestry: an archive that the better builder packed has no
// higher level than the binary in it.
func TestLevelOverAncestry(t *testing.T) {
	w := theWorld(t)
	const row = "  classes: [binary, archive, file, image]\n  checks: {provenance: require, signature: require, sbom: require}\n"
	const split = "  classes: [binary, file, image]\n  checks: {provenance: require, signature: require, sbom: require}\n" +
		"- stages: [staging, release]\n  classes: [archive]\n  checks: {provenance: require, signature: require, sbom: require}\n  level: 2\n"
	worse := func(t *testing.T, r *attacked) {
		r.reattest(t, lab.RoleBuilderUnisolated, compiled, func(p *provenance.Provenance) {
			p.RunDetails.Builder.ID = provenance.BuilderUnisolated
		})
		r.reseal(t, func(m *manifest.Manifest) { r.relist(t, m, compiled) })
	}
	for _, c := range []struct {
		name   string
		edit   func(t *testing.T, r *attacked)
		policy string
		codes  []verdict.Code
	}{
		{"all by the better builder", func(*testing.T, *attacked) {}, split, nil},
		{"a binary by the worse one, where no level is asked", worse, row, nil},
		{"a binary by the worse one", worse, split, []verdict.Code{verdict.Level}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := w.attacked(t)
			c.edit(t, r)
			refused(t, r.gate(t, func(q *gate.Request) { q.Policy = r.policy(t, row, c.policy) }).Err(), c.codes...)
		})
	}
}
