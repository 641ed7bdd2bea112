package stories

import (
	"fmt"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/test/scene"
)

func summed() fields {
	return fields{
		"verifier": fields{"id": verifies}, "timeVerified": time.Now().UTC().Add(-time.Minute).Format(time.RFC3339), "resourceUri": resource,
		"policy":             fields{"uri": "https://example.test/policy", "digest": fields{"sha256": sum("the policy").Hex()}},
		"verificationResult": "PASSED", "verifiedLevels": []any{"SLSA_BUILD_LEVEL_3"}, "slsaVersion": "1.0",
	}
}

// TestPolicySummaries: a verifier's summary counts for exactly what was asked,
// of a file and of an image (F21).
func TestPolicySummaries(t *testing.T) {
	c := openCourt(t)
	ago := func(d time.Duration) fields {
		return fields{"timeVerified": time.Now().UTC().Add(-d).Format(time.RFC3339)}
	}
	rows := []struct {
		name, role string
		change     fields
		code       string
	}{
		{"as it must be", "verifier", nil, ""},
		{"another verifier", "verifier", fields{"verifier/id": "https://verifier.example.test/other"}, "VSA_VERIFIER"},
		{"another resource", "verifier", fields{"resourceUri": "https://dl.example.test/lantern/v0.1.1/"}, "VSA_RESOURCE"},
		{"a longer resource", "verifier", fields{"resourceUri": resource + "x"}, "VSA_RESOURCE"},
		{"another policy", "verifier", fields{"policy/uri": "https://example.test/lax"}, "VSA_POLICY"},
		{"another text of the policy", "verifier", fields{"policy/digest/sha256": sum("a laxer policy").Hex()}, "VSA_POLICY"},
		{"no text of the policy", "verifier", fields{"policy/digest": nil}, "VSA_POLICY"},
		{"a no", "verifier", fields{"verificationResult": "FAILED", "verifiedLevels": []any{"FAILED"}}, "VSA_RESULT"},
		{"a lower level", "verifier", fields{"verifiedLevels": []any{"SLSA_BUILD_LEVEL_2"}}, "VSA_LEVEL"},
		{"a level of another track", "verifier", fields{"verifiedLevels": []any{"SLSA_SOURCE_LEVEL_3"}}, "VSA_LEVEL"},
		{"no level", "verifier", fields{"verifiedLevels": []any{}}, "VSA_LEVEL"},
		{"a stale one", "verifier", ago(25 * time.Hour), "VSA_STALE"},
		{"one of yesterday", "verifier", ago(23 * time.Hour), ""},
		{"one from the future", "verifier", ago(-time.Hour), "VSA_STALE"},
		{"one of no time", "verifier", fields{"timeVerified": nil}, "VSA_STALE"},
		{"by the release identity", "release", nil, "IDENTITY_ROLE"},
		{"by the builder", "builder", nil, "IDENTITY_ROLE"},
		{"by a stranger", "mallory@evil.example", nil, "IDENTITY"},
	}
	for i, row := range rows {
		name := fmt.Sprintf("summary-%d", i)
		t.Run(row.name, func(t *testing.T) {
			c.write(t, name+".json", c.sign(t, row.role, states(vsa.PredicateType, content, summed().with(row.change))))
			judgedAs(t, c.ask(t, nil, "--stage=release "+name), row.code)
		})
	}
	c.write(t, "other.json", c.sign(t, "verifier", states(vsa.PredicateType, "another file", summed())))
	judgedAs(t, c.ask(t, nil, "--stage=release other"), "NOT_BOUND")
	c.write(t, "yes.json", c.sign(t, "verifier", states(vsa.PredicateType, content, summed().with(ago(time.Hour)))))
	no := fields{"verificationResult": "FAILED", "verifiedLevels": []any{"FAILED"}}
	c.write(t, "no.json", c.sign(t, "verifier", states(vsa.PredicateType, content, summed().with(no))))
	c.write(t, "before.json", c.sign(t, "verifier", states(vsa.PredicateType, content, summed().with(no).with(ago(2*time.Hour)))))
	judgedAs(t, c.ask(t, nil, "--stage=release yes no"), "VSA_RESULT")
	judgedAs(t, c.ask(t, nil, "--stage=release before yes"), "")
}

// TestPolicySummariesOfImages: the same where the digest is the name.
func TestPolicySummariesOfImages(t *testing.T) {
	c := openCourt(t)
	bench{c.Scene}.policy(t, "court.yaml", c.text)
	ask := func(repo string) scene.Result {
		return c.Run(t.Context(), "waybill", "gate", "image", c.Lab.Registry+"/shop/"+repo+":v1", "--policy", "court.yaml", "--stage", "release",
			"--trusted-root", "trusted_root.json", "--release-version", scene.Version)
	}
	no := fields{"verificationResult": "FAILED", "verifiedLevels": []any{"FAILED"}}
	for repo, row := range map[string]struct {
		role   string
		change fields
		code   string
	}{
		"resource": {"verifier", fields{"resourceUri": "https://dl.example.test/"}, "VSA_RESOURCE"},
		"verifier": {"verifier", fields{"verifier/id": "https://verifier.example.test/other"}, "VSA_VERIFIER"},
		"failed":   {"verifier", no, "VSA_RESULT"},
		"level":    {"verifier", fields{"verifiedLevels": []any{"SLSA_BUILD_LEVEL_1"}}, "VSA_LEVEL"},
		"policy":   {"verifier", fields{"policy/uri": "https://example.test/lax"}, "VSA_POLICY"},
		"release":  {"release", nil, "IDENTITY_ROLE"},
	} {
		t.Run(repo, func(t *testing.T) {
			image := c.push(t, repo)
			judgedAs(t, ask(repo), "EVIDENCE_MISSING")
			c.attach(t, repo, image, c.sign(t, row.role, statesOf(vsa.PredicateType, "shop/"+repo, image.Digest, summed().with(row.change))))
			judgedAs(t, ask(repo), row.code)
			if row.code == "VSA_RESULT" {
				return // a no is not outvoted
			}
			c.attach(t, repo, image, c.sign(t, "verifier", statesOf(vsa.PredicateType, "shop/"+repo, image.Digest, summed())))
			judgedAs(t, ask(repo), "")
		})
	}
	image, other := c.push(t, "bound"), c.push(t, "unbound")
	c.attach(t, "bound", image, c.sign(t, "verifier", statesOf(vsa.PredicateType, "shop/bound", other.Digest, summed())))
	judgedAs(t, ask("bound"), "NOT_BOUND")
}
