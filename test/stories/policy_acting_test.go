package stories

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/vsa"
)

// TestPolicyOverlap: an identity that matches the signers of two builders speaks
// for neither, where two must agree and where one of them is believed more.
func TestPolicyOverlap(t *testing.T) {
	c := openCourt(t)
	issuer, subject := c.Lab.Identity("builder")
	const second = "https://rebuilder.example.test"
	matching := func(pattern string) string {
		return fmt.Sprintf("{issuer: %q, pattern: '%s', type: email}", issuer, pattern)
	}
	c.text = strings.NewReplacer(
		fmt.Sprintf("{issuer: %q, subject: %q, type: email}", issuer, subject), matching(`build-[a-z]+@lab\.invalid`),
		"source: {", fmt.Sprintf("- {id: %s, level: 1, signers: [%s]}\nthresholds: {builders: 2}\nsource: {", second, matching(`[a-z]+-two@lab\.invalid`)),
	).Replace(c.text)
	alone := []string{"thresholds: {builders: 2}\n", "", "sbom: \"off\"}\n  level: 1", "sbom: \"off\"}\n  level: 3"}
	c.write(t, "signed.json", c.sign(t, "release", blobOf(content)))
	for name, by := range map[string][2]string{
		"one": {"build-one", builderID}, "two": {"test-two", second}, "both-as-one": {"build-two", builderID}, "both-as-two": {"build-two", second},
	} {
		said := built1().with(fields{"runDetails/builder/id": by[1]})
		c.write(t, name+".json", c.sign(t, by[0]+"@lab.invalid", states(provenance.PredicateType, content, said)))
	}
	for _, row := range []struct {
		change      []string
		words, code string
	}{
		{nil, "signed one two", ""},
		{nil, "signed both-as-one both-as-two", "IDENTITY"},
		{nil, "signed one both-as-two", "THRESHOLD"},
		{alone, "signed one", ""},
		{alone, "signed both-as-one", "IDENTITY"},
		{alone, "signed two", "LEVEL"},
	} {
		t.Run(row.words, func(t *testing.T) { judgedAs(t, c.ask(t, row.change, row.words), row.code) })
	}
}

// TestPolicySummarySigners: what is asked of a summary's signer counts, as it
// does in the role: its time, claims, stages and classes.
func TestPolicySummarySigners(t *testing.T) {
	c := openCourt(t)
	c.write(t, "summary.json", c.sign(t, "verifier", states(vsa.PredicateType, content, summed())))
	no := fields{"verificationResult": "FAILED", "verifiedLevels": []any{"FAILED"}, "timeVerified": time.Now().UTC().Format(time.RFC3339)}
	c.write(t, "no.json", c.sign(t, "verifier", states(vsa.PredicateType, content, summed().with(no))))
	issuer, subject := c.Lab.Identity("verifier")
	signed := func(extent string) []string {
		return []string{"  resource:", fmt.Sprintf("  signers: [{issuer: %q, subject: %q, type: email%s}]\n  resource:", issuer, subject, extent)}
	}
	for extent, code := range map[string]string{
		"":                                "",
		`, until: "2099-01-01"`:           "",
		`, until: "2025-01-01"`:           "IDENTITY_WINDOW",
		`, from: "2099-01-01"`:            "IDENTITY_WINDOW",
		", claims: {buildTrigger: push}":  "CERT_CLAIM",
		", stages: [release]":             "",
		", stages: [staging]":             "IDENTITY_ROLE",
		", classes: [binary, image]":      "",
		", classes: [image, image-child]": "IDENTITY_ROLE",
	} {
		t.Run("signer"+extent, func(t *testing.T) {
			judgedAs(t, c.ask(t, signed(extent), "--stage=release summary"), code)
		})
	}
	judgedAs(t, c.ask(t, signed(""), "--stage=release summary no"), "VSA_RESULT")
	want(t, bench{c.Scene}.lint(t, "roles:\n", fmt.Sprintf("roles:\n  policy: [{issuer: %q, subject: officer@lab.invalid, type: email, classes: [image]}]\n", issuer)), 2, "the role policy signs none")
}
