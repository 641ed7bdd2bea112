package attacks

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// TestSourceSummaryOfACommit: a summary of the commit, of the policy's repository,
// by a verifier of sources shows a level that the clone does not. Each row changes
// one fact of the second.
func TestSourceSummaryOfACommit(t *testing.T) {
	w := theWorld(t)
	r := w.leveled(t)
	commit := r.manifest(t).Source.Commit
	p := must[policy.Policy](t)(policy.Parse([]byte(r.text), nil))
	failed := []string{`"PASSED"`, `"FAILED"`, `"SLSA_SOURCE_LEVEL_3"`, `"FAILED"`}
	for _, row := range []struct {
		name    string
		sources [][]byte
		level   int
		codes   []verdict.Code
	}{
		{"the clone alone", nil, 1, nil},
		{"a summary", [][]byte{r.summary(t, lab.RoleVerifier)}, 3, nil},
		{"no summary", nil, 2, codes(verdict.Level)},
		{"by the builder", [][]byte{r.summary(t, lab.RoleBuilder)}, 3, codes(verdict.IdentityRole)},
		{"by the builder, where no level is required", [][]byte{r.summary(t, lab.RoleBuilder)}, 1, codes(verdict.IdentityRole)},
		{"by the release identity", [][]byte{r.summary(t, lab.RoleRelease)}, 3, codes(verdict.IdentityRole)},
		{"by a stranger", [][]byte{r.summary(t, "mallory@evil.example")}, 3, codes(verdict.Identity)},
		{"of another commit", [][]byte{r.summary(t, lab.RoleVerifier, commit, strings.Repeat("d", 40))}, 3, codes(verdict.Level)},
		{"of a commit of another repository", [][]byte{r.summary(t, lab.RoleVerifier, canonical, canonical+"-fork")}, 3, codes(verdict.Level)},
		{"that failed", [][]byte{r.summary(t, lab.RoleVerifier, failed...)}, 3, codes(verdict.VSAResult)},
		{"that failed, where no level is required", [][]byte{r.summary(t, lab.RoleVerifier, failed...)}, 1, codes(verdict.VSAResult)},
		{"of a level above the one that the verifier is trusted for", [][]byte{r.summary(t, lab.RoleVerifier, "LEVEL_3", "LEVEL_4")}, 4, codes(verdict.Level)},
	} {
		t.Run(row.name, func(t *testing.T) {
			var sources []verify.Evidence
			for _, raw := range row.sources {
				sources = append(sources, must[verify.Evidence](t)(r.verifier.Attestation(raw)))
			}
			g := gate.Under(profile.Profile{Policy: p}, r.verifier, gate.Waivers{}, nil).WithSources(sources...)
			v := g.Source(t.Context(), commit, gate.Options{
				Checkout: gate.Checkout{Repository: w.Path("lantern"), Ref: "refs/tags/" + w.version.String()},
				Scope:    gate.Scope{Levels: []slsa.Demand{{Track: slsa.Source, Level: row.level}}},
			}, time.Now())
			if row.codes == nil {
				accepted(t, v.Err())
			} else {
				refused(t, v.Err(), row.codes...)
			}
		})
	}
}
