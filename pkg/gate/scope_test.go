package gate

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestScopeLeavesSomething: a part of a release in which nothing is of the
// platform that is asked about is wrong use, and never a question that the
// manifest alone answers.
func TestScopeLeavesSomething(t *testing.T) {
	m := manifest.Manifest{Artifacts: []manifest.Artifact{
		{Artifact: plan.Artifact{Name: "LICENSE", Class: plan.Other}},
		{Artifact: plan.Artifact{Name: "bin/windows/amd64/lantern.exe", Class: plan.Binary, Platform: "windows/amd64"}},
		{Artifact: plan.Artifact{Name: "bin/linux/amd64/lantern", Class: plan.Binary, Platform: "linux/amd64"}},
		{Artifact: plan.Artifact{Name: "oci/lantern", Class: plan.Image}},
		{Artifact: plan.Artifact{Name: "oci/lantern/linux/amd64", Class: plan.ImageChild, Platform: "linux/amd64"}},
		{Artifact: plan.Artifact{Name: "oci/lantern/linux/s390x", Class: plan.ImageChild, Platform: "linux/s390x"}},
	}}
	for _, only := range []string{"", policy.Files, policy.Images} {
		for platform, in := range map[string][]string{
			"": {"", policy.Files, policy.Images}, "linux/amd64": {"", policy.Files, policy.Images},
			"windows/amd64": {"", policy.Files}, "linux/s390x": {"", policy.Images}, "plan9/386": nil,
		} {
			for _, depth := range []Depth{allEvidence, OnlySignatures, OnlyFiles} {
				want := false
				for _, part := range in {
					want = want || part == only
				}
				err := Scope{Only: only, Platform: platform, Depth: depth}.check(m)
				if (err == nil) != want || err != nil && verdict.FindingOf("", err).Code != verdict.Usage {
					t.Errorf("only %q, platform %q: %v", only, platform, err)
				}
			}
		}
	}
}
