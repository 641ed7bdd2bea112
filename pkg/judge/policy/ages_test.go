package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/policy"
)

// TestSummaryAges: of a verifier that several entries name, the oldest summary
// that any takes may still count.
func TestSummaryAges(t *testing.T) {
	plain := policyForAges(t, "")
	if ages := policy.SummaryAges(plain); len(ages) != 0 {
		t.Errorf("a policy that asks for none: %v", ages)
	}
	entry := func(verifier, age string) string {
		return "- {verifier: \"https://" + verifier + ".example.test\", resource: \"pkg:oci/lantern\", maxAge: " + age +
			", levels: {BUILD: 1}, policy: {uri: \"https://example.test/policy\", sha256: " + strings.Repeat("a1", 32) + "}}\n"
	}
	ages := policy.SummaryAges(policyForAges(t, "summaries:\n"+entry("one", "24h")+entry("one", "48h")+entry("one", "1h")))
	if len(ages) != 1 || ages["https://one.example.test"] != 48*time.Hour {
		t.Errorf("%v", ages)
	}
}

func policyForAges(t *testing.T, more string) policy.Policy {
	t.Helper()
	p, err := policy.Parse([]byte(`apiVersion: waybill/v1
kind: Policy
name: ages
roles:
  release: [{issuer: "https://issuer.example.test", subject: release@example.test, type: email}]
  verifier: [{issuer: "https://issuer.example.test", subject: verifier@example.test, type: email}]
  policy: [{issuer: "https://issuer.example.test", subject: policy@example.test, type: email}]
builders:
- {id: "https://example.test/builder", level: 1, signers: [{issuer: "https://issuer.example.test", subject: builder@example.test, type: email}]}
source: {repository: "git+https://example.test/source"}
require:
- stages: [staging, release]
  classes: [binary, archive, file, image]
  checks: {provenance: require, signature: require, sbom: require}
- {stages: [staging, release], classes: [image-child], checks: {provenance: require, signature: require}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: require
closed: {files: require, images: require}
`+more), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
