package policy_test

import (
	"fmt"
	"os"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Without evidence nothing is accepted, and the verdict says what was missing.
func ExamplePolicy_Decide() {
	raw, err := os.ReadFile("testdata/valid.yaml")
	if err != nil {
		panic(err)
	}
	p, err := policy.Parse(raw, nil)
	if err != nil {
		panic(err)
	}
	v := p.Decide(nil, policy.Question{
		Stage: policy.Published, Class: plan.Binary, Subject: "bin/linux/amd64/lantern", Bytes: digest.SetOf([]byte("a lantern")),
		Version: "v1.0.0", At: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
	})
	fmt.Println(v.Headline())
	for _, f := range v.Findings {
		fmt.Println(f.Code, f.Subject)
	}
	// Output:
	// REFUSED binary bin/linux/amd64/lantern: without provenance; unsigned; and 1 more finding
	// NO_PROVENANCE bin/linux/amd64/lantern
	// UNSIGNED bin/linux/amd64/lantern
	// NO_SBOM bin/linux/amd64/lantern
}
