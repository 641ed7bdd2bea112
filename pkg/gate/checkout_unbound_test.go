package gate

import (
	"slices"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestUnboundIsReportedBesideOthers: where the policy does not require provenance,
// another finding about an artifact is no reason to keep silent that nothing binds
// it to the commit: the other one may be excepted.
func TestUnboundIsReportedBesideOthers(t *testing.T) {
	const name = "lantern.tar.gz"
	s := &sourceCheck{sealed: &sealed{manifest: signedManifest{Manifest: manifest.Manifest{
		Artifacts: []manifest.Artifact{{Artifact: plan.Artifact{Name: name, Class: plan.Archive, Step: "pack"}}},
	}}}}
	for _, code := range []verdict.Code{verdict.Unsigned, verdict.NoSBOM, verdict.Level} {
		j := terms{now: time.Unix(0, 0)}.beginBy("q", levelRule{})
		j.find(verdict.Find(code, name, "it can be excepted"))
		var f facts
		s.compare(&f)
		j.addFacts(f)
		if !slices.ContainsFunc(j.v.Findings, func(f verdict.Finding) bool { return f.Code == verdict.NoProvenance && f.Subject == name }) {
			t.Errorf("beside %s: %v", code, j.v.Findings)
		}
	}
}
