package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/policy"
)

// TestExplainNamesRequirements: the explanation names a requirement if the policy
// has it, and only then.
func TestExplainNamesRequirements(t *testing.T) {
	for _, row := range []struct{ old, new, says string }{
		{"plan: require\n", "plan: require\nbuild: {types: [x], parameters: [{name: x, any: true}]}\n", "the build must be of type x (BUILD_TYPE)"},
		{"signature: require, sbom: require}", "signature: require, sbom: complete}", "sbom (complete)"},
	} {
		p, err := policy.Parse([]byte(strings.Replace(text(t), row.old, row.new, 1)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if said := fmt.Sprint(policy.Explain(p)); !strings.Contains(said, row.says) {
			t.Errorf("with %q: no %q in %s", row.new, row.says, said)
		}
		if said := fmt.Sprint(policy.Explain(load(t))); strings.Contains(said, row.says) {
			t.Errorf("without %q: %q", row.new, row.says)
		}
	}
}
