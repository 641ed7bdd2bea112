package policy_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/policy"
)

// TestExplainNamesRequirements: the explanation names a requirement if the policy
// has it, and only then. Without a twin, the policy that lacks it is the unchanged one.
func TestExplainNamesRequirements(t *testing.T) {
	const planned = "plan: require\n"
	base := strings.Replace(text(t), "level: 3", "level: 2", 1)             // of which any parameter may be accepted
	witness := "witness.example.test+00000000+AQ" + strings.Repeat("A", 42) // an Ed25519 key of zeros
	for _, row := range []struct{ old, new, twin, says string }{
		{planned, planned + "build: {types: [x], parameters: [{name: x, any: true}]}\n", "", "the build must be of type x (BUILD_TYPE)"},
		{
			planned, planned + "build: {types: [x], parameters: [{name: x, any: true}]}\n",
			planned + "build: {types: [x], parameters: [{name: \"*\", any: true, optional: true}]}\n", "every other parameter is refused (PARAM_UNKNOWN)",
		},
		{"signature: require, sbom: require}", "signature: require, sbom: complete}", "", "sbom (complete)"},
		{planned, planned + rebuiltOnce, "", "signs what it built again as rebuilder https://example.test/rebuilder"},
		{planned, planned + "thresholds: {logs: 2}\n", "", "recorded in 2 different transparency logs and timestamped by 1 trusted authority"},
		{planned, planned + "witnesses: {atLeast: 1, keys: [" + witness + "]}\n", "", "witnesses have cosigned each checkpoint of a log (WITNESS_FEW, WITNESS_SIG)"},
		{planned, planned + "limits: {manifest: 720h}\n", planned + "limits: {trustRoot: 720h}\n", "the manifest must be signed at most "},
	} {
		explained := func(new string) string {
			p, err := policy.Parse([]byte(strings.Replace(base, row.old, new, 1)), nil)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(policy.Explain(p))
		}
		if said := explained(row.new); !strings.Contains(said, row.says) {
			t.Errorf("with %q: no %q in %s", row.new, row.says, said)
		}
		if said := explained(cmp.Or(row.twin, row.old)); strings.Contains(said, row.says) {
			t.Errorf("without %q: %q", row.new, row.says)
		}
	}
}

// TestOverridersAndNotes: who can grant exceptions is listed; and a role whose
// statements count for nothing gets a note.
func TestOverridersAndNotes(t *testing.T) {
	const grants, idle = "can grant exceptions for single findings", "none of its statements counts"
	if said := fmt.Sprint(policy.Overriders(load(t))); !strings.Contains(said, "officer@example.test (email, issuer https://accounts.example.test) "+grants) {
		t.Errorf("no %q in %s", grants, said)
	}
	vex := strings.Replace(text(t), "roles:\n", "roles:\n  vex: [{issuer: \"https://accounts.example.test\", subject: vex@example.test, type: email}]\n", 1)
	for late, want := range map[string]bool{"": true, "late: [{predicate: https://openvex.dev/ns, role: vex, stages: [release]}]\n": false} {
		p, err := policy.Parse([]byte(vex+late), nil)
		if err != nil {
			t.Fatal(err)
		}
		if said := fmt.Sprint(policy.Lint(p)); strings.Contains(said, idle) != want {
			t.Errorf("with %q: %s", late, said)
		}
	}
}
