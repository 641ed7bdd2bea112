package attacks

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestDigestsCompared: a manifest lists a SHA-512 that is not a file's, and no sums
// list the file. SHA-256 binds every byte and is all that a verification compares,
// unless the user or the policy asks for all; what is staged is always compared by
// all. The twins list the right one.
func TestDigestsCompared(t *testing.T) {
	w := theWorld(t)
	wrong := w.attacked(t)
	wrong.reseal(t, func(m *manifest.Manifest) {
		entry(t, m, plan.BundleName(binary)).Digests.SHA512 = digest.Of(digest.SHA512, nil)
	})
	text := string(must[[]byte](t)(os.ReadFile(w.Path("policy.yaml"))))
	all := must[policy.Policy](t)(policy.Parse([]byte(strings.Replace(text, "plan: require\n", "plan: require\ndigests: all\n", 1)), nil))
	both := []digest.Algorithm{digest.SHA256, digest.SHA512}
	for _, row := range []struct {
		name string
		edit func(q *gate.Request)
		by   []digest.Algorithm
		want verdict.Code
	}{
		{"nobody asks for more", func(*gate.Request) {}, both[:1], ""},
		{"the user asks for all", func(q *gate.Request) { q.Options.AllDigests = true }, both, verdict.Tampered},
		{"the policy asks for all", func(q *gate.Request) { q.Policy = all }, both, verdict.Tampered},
		{"it is staged", func(q *gate.Request) { q.Stage = policy.Staging }, both, verdict.Tampered},
	} {
		v := wrong.gate(t, row.edit)
		if (len(v.Findings) > 0) != (row.want != "") || len(v.Findings) > 0 && v.Findings[0].Code != row.want {
			t.Errorf("%s: %v, want %q", row.name, v.Findings, row.want)
		}
		if !slices.Equal(v.Scope.Digests, row.by) {
			t.Errorf("%s: compared by %v, want %v", row.name, v.Scope.Digests, row.by)
		}
		if twin := w.attacked(t).gate(t, row.edit); twin.Err() != nil {
			t.Errorf("%s, of the right digest: %v", row.name, twin.Err())
		}
	}
}
