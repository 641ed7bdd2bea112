package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const (
	word      = "insecureAcceptUnsigned: true\n"
	signed    = "{provenance: require, signature: require, sbom: require}"
	sbomAlone = `{provenance: "off", signature: "off", sbom: require}`
	ruleAlone = `{provenance: "off", signature: "off", sbom: "off"}`
	staged    = "rules: [{name: staged, classes: [binary, archive, file, image], holds: 'stage == \"release\"'}]\n"
	// reconciled are roles, and a feature that lowers provenance as far as it goes.
	reconciled = "  reconciler: [{issuer: \"https://accounts.example.test\", subject: reconciler@example.test, type: email}]\n"
	provenOnly = `{provenance: require, signature: "off", sbom: require}`
)

// asking is the example with other checks of files and images, and more at its end.
func asking(t testing.TB, checks, more string) string {
	t.Helper()
	return strings.Replace(text(t), signed, checks, 1) + more
}

// TestSomethingSignedIsRequired: a policy by which an artifact could be accepted
// that nothing signed speaks for does not load, whether as it is written or with
// a feature off. Its twin says in a word of its own that this may be so.
func TestSomethingSignedIsRequired(t *testing.T) {
	lowered := func(floor string) string {
		return strings.Replace(asking(t, provenOnly, ""), "  verifier:", reconciled+"  verifier:", 1) + "features: {RequireProvenance: {floor: " + floor + "}}\n"
	}
	alone := strings.Replace(text(t), "{provenance: require, signature: require}}", `{provenance: require, signature: "off"}}`, 1)
	for _, r := range []struct{ name, text, says string }{
		{"an SBOM alone", asking(t, sbomAlone, ""), "no signed evidence is required of binary"},
		{"an SBOM alone, complete", asking(t, strings.Replace(sbomAlone, "sbom: require", "sbom: complete", 1), ""), "no signed evidence is required of binary"},
		{"what is signed, only warned of", asking(t, strings.ReplaceAll(sbomAlone, `"off"`, "warn"), ""), "no signed evidence is required of binary"},
		{"a rule alone", asking(t, ruleAlone, staged), "no signed evidence is required of binary"},
		{"a rule about sums", strings.Replace(asking(t, signed, strings.Replace(staged, "binary, archive, file, image", "sums", 1)), "[sums], checks: {signature: require}", "[sums], checks: {signature: warn}", 1), "no signed evidence is required of sums"},
		{"a feature that is off", lowered(`"off"`), "unsigned artifacts would be accepted while the feature is off"},
		{"a feature that warns", lowered("warn"), "unsigned artifacts would be accepted while the feature is off"},
	} {
		t.Run(r.name, func(t *testing.T) {
			_, err := policy.Parse([]byte(r.text), rules(t))
			if f := verdict.FindingOf("", err); f.Code != verdict.PolicyEmpty || !strings.Contains(err.Error(), r.says) || !place.MatchString(err.Error()) {
				t.Fatalf("%v, want POLICY_EMPTY with line and column, %q", err, r.says)
			}
			p, err := policy.Parse([]byte(r.text+word), rules(t))
			if err != nil || !p.InsecureUnsigned() || !strings.Contains(strings.Join(append(policy.Lint(p), policy.Overriders(p)...), "\n"), "begins with UNSIGNED") {
				t.Errorf("with the word: %v, lint %q", err, policy.Lint(p))
			}
		})
	}
	if _, err := policy.Parse([]byte(alone), nil); err != nil {
		t.Errorf("provenance alone: %v", err)
	}
	refused(t, text(t)+"insecureAcceptUnsigned: require\n", "want true or false")
	if p := load(t); p.InsecureUnsigned() {
		t.Error("a policy without the word accepts what is unsigned")
	}
}

// TestUnsignedIsSaid: by such a policy an acceptance says UNSIGNED, and only one
// that rests on nothing signed does. What the manifest of a release names is
// accepted with it, never by itself.
func TestUnsignedIsSaid(t *testing.T) {
	bytes := digest.SetOf([]byte("lantern"))
	question := policy.Question{
		Stage: policy.Published, Class: plan.Binary, Subject: "bin/lantern", Bytes: bytes, SBOM: bytes.SHA256, At: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
	}
	p, err := policy.Parse([]byte(asking(t, sbomAlone, word)), nil)
	if err != nil {
		t.Fatal(err)
	}
	v := p.Decide(nil, question)
	if v.Outcome() != verdict.Accepted || !strings.HasPrefix(v.Headline(), "UNSIGNED ") || v.Complete() {
		t.Errorf("%q", v.Headline())
	}
	other := question
	other.SBOM = digest.Of(digest.SHA256, []byte("other"))
	if v := p.Decide(nil, other); v.Outcome() != verdict.Refused {
		t.Errorf("an SBOM of other bytes: %q", v.Headline())
	}
	named := question
	named.Named = true
	if v := p.Decide(nil, named); v.Outcome() != verdict.Undecided || len(v.Findings) != 0 {
		t.Errorf("named by a manifest: %q", v.Headline())
	}
	// No policy that loads is met by what is unsigned, but a part of one is.
	if v := load(t).Narrow(policy.SBOM).Decide(nil, question); v.Outcome() != verdict.Refused || v.Findings[0].Code != verdict.NoProof || v.Findings[0].Subject != "bin/lantern" {
		t.Errorf("narrowed to what is unsigned: %q", v.Headline())
	}
}

// TestNoShippedPolicyAcceptsUnsigned holds every policy of the repository to
// that: what is shipped demands a signature, also with every feature off.
func TestNoShippedPolicyAcceptsUnsigned(t *testing.T) {
	for _, name := range shippedNames(t) {
		s := ship(t, name)
		if s.InsecureUnsigned() || strings.Contains(string(s.raw), "insecureAcceptUnsigned") {
			t.Errorf("%s accepts what nothing signed speaks for", name)
		}
	}
}
