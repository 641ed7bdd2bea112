package attacks

import (
	"os"
	"strings"
	"testing"

	releasesignoff "github.com/waybill-release/waybill/attestations/release-signoff/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// TestSignedStatements: genuine signatures of the release role over statements
// that must not be taken for what was asked.
func TestSignedStatements(t *testing.T) {
	w := theWorld(t)
	a := w.author(t, lab.RoleRelease)
	text := string(statement())
	replace := func(old, with string) string {
		if !strings.Contains(text, old) {
			t.Fatalf("%q is not in the statement", old)
		}
		return strings.Replace(text, old, with, 1)
	}
	rows := []struct {
		name    string
		payload string
		codes   []verdict.Code
	}{
		{"the genuine one", text, nil},
		{"A21 another predicate type", replace(kind, kind+"1"), []verdict.Code{verdict.PredicateType}},
		{"A21 no JSON", "hello", []verdict.Code{verdict.StatementParse}},
		{"A21 nothing", "", []verdict.Code{verdict.BundleParse}},
		{"A21 not an object", "[]", []verdict.Code{verdict.StatementParse}},
		{"A27 an unknown statement type", replace("Statement/v1", "Statement/v9"), []verdict.Code{verdict.StatementType}},
		{"A27 an old statement type, as others still write it", replace("Statement/v1", "Statement/v0.1"), nil},
		{"A27 no statement type", replace(`"_type":"`+intoto.TypeV1+`",`, ""), []verdict.Code{verdict.StatementType}},
		{"B01 a key twice", replace(`"predicate":`, `"predicateType":"x","predicate":`), []verdict.Code{verdict.StatementParse}},
		{"B01 a key twice, deep inside", replace(`"predicate":{}`, `"predicate":{"a":[{"b":1,"b":2}]}`), []verdict.Code{verdict.StatementParse}},
		{"a key in another case", replace(`"predicateType"`, `"PredicateType"`), []verdict.Code{verdict.StatementParse}},
		{"F03 no subjects", replace(text[strings.Index(text, `[{`):strings.Index(text, `],`)+1], "[]"), []verdict.Code{verdict.StatementParse}},
		{"F10 a weak digest only", replace(`"sha256"`, `"md5"`), []verdict.Code{verdict.NotBound}},
		{"F10 a strong digest in capitals", replace(`"sha256"`, `"SHA256"`), []verdict.Code{verdict.StatementParse}},
		{"F04 another name", replace(artifactName, "bin/linux/arm64/lantern"), []verdict.Code{verdict.NotBound}},
		{"other bytes", replace(digest.Of(digest.SHA256, []byte(artifact)).Hex(), digest.Of(digest.SHA256, nil).Hex()), []verdict.Code{verdict.NotBound}},
		{"F11 right sha256, wrong sha512", replace(`"}}]`, `","sha512":"`+digest.Of(digest.SHA512, nil).Hex()+`"}}]`), []verdict.Code{verdict.NotBound}},
		{"a second document", text + text, []verdict.Code{verdict.StatementParse}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			refused(t, w.judgeAttestation(encode(t, a.sign(t, envelope([]byte(r.payload))))), r.codes...)
		})
	}
}

// TestWhoSigned: genuine signatures by somebody else.
func TestWhoSigned(t *testing.T) {
	w := theWorld(t)
	rows := []struct {
		as   string
		code []verdict.Code
	}{
		{lab.RoleRelease, nil},
		{lab.RoleBuilder, []verdict.Code{verdict.IdentityRole}},
		{lab.RoleBuilderUnisolated, []verdict.Code{verdict.IdentityRole}},
		{lab.RoleVerifier, []verdict.Code{verdict.IdentityRole}},
		{lab.RolePolicy, []verdict.Code{verdict.IdentityRole}},
		{"mallory@evil.example", []verdict.Code{verdict.Identity}},
	}
	for _, r := range rows {
		t.Run(r.as, func(t *testing.T) {
			a := w.author(t, r.as)
			refused(t, w.judgeBlob(encode(t, a.sign(t, blob()))), r.code...)
			refused(t, w.judgeAttestation(encode(t, a.sign(t, envelope(statement())))), r.code...)
		})
	}
}

// TestNothingProvesNothing: no evidence, no artifact, no policy (A12, A22).
func TestNothingProvesNothing(t *testing.T) {
	w := theWorld(t)
	set := digest.SetOf([]byte(artifact))
	raw := encode(t, w.author(t, lab.RoleRelease).sign(t, blob()))
	e := must[verify.Evidence](t)(w.verifier.Blob(raw, set))
	good := policy.Ask{Role: policy.Release, Kind: "blob", Subject: artifactName, Bytes: set}
	judge := func(p policy.Policy, e verify.Evidence, edit func(*policy.Ask)) error {
		ask := good
		edit(&ask)
		_, err := p.Judge(e, ask)
		return err
	}
	rows := []struct {
		name     string
		policy   policy.Policy
		evidence verify.Evidence
		edit     func(*policy.Ask)
		code     []verdict.Code
	}{
		{"the genuine ask", w.profile.Policy, e, func(*policy.Ask) {}, nil},
		{"no evidence", w.profile.Policy, verify.Evidence{}, func(*policy.Ask) {}, []verdict.Code{verdict.EvidenceMissing}},
		{"no evidence for the whole", w.profile.Policy, verify.Evidence{}, func(a *policy.Ask) { a.Whole = true }, []verdict.Code{verdict.EvidenceMissing}},
		{"no policy", policy.Policy{}, e, func(*policy.Ask) {}, []verdict.Code{verdict.Identity}},
		{"no role", w.profile.Policy, e, func(a *policy.Ask) { a.Role = "" }, []verdict.Code{verdict.IdentityRole}},
		{"no kind", w.profile.Policy, e, func(a *policy.Ask) { a.Kind = "" }, []verdict.Code{verdict.PredicateType}},
		{"no bytes", w.profile.Policy, e, func(a *policy.Ask) { a.Bytes = digest.Set{} }, []verdict.Code{verdict.NotBound}},
		{"a blob for a registry", w.profile.Policy, e, func(a *policy.Ask) { a.InRegistry = true }, []verdict.Code{verdict.NotBound}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) { refused(t, judge(r.policy, r.evidence, r.edit), r.code...) })
	}
	_, err := w.verifier.Blob(raw, digest.Set{})
	refused(t, err, verdict.NoArtifact)
	_, err = w.verifier.Blob(raw, digest.Set{SHA512: set.SHA512}) // of which the signature says nothing
	refused(t, err, verdict.NoArtifact)
}

// TestKindBlobIsNoPredicateType: a statement cannot call itself a blob.
func TestKindBlobIsNoPredicateType(t *testing.T) {
	w := theWorld(t)
	raw := encode(t, w.author(t, lab.RoleRelease).sign(t, envelope(statementOf(intoto.TypeV1, "blob", artifactName, "{}"))))
	e, err := w.verifier.Attestation(raw)
	if err == nil {
		_, err = w.profile.Policy.Judge(e, policy.Ask{Role: policy.Release, Kind: "blob", Subject: artifactName, Bytes: digest.SetOf([]byte(artifact))})
	}
	refused(t, err, verdict.PredicateType)
}

// TestProvenanceSays holds genuine provenance against the policy.
func TestProvenanceSays(t *testing.T) {
	w := theWorld(t)
	good := provenance.Predicate{
		BuildDefinition: provenance.BuildDefinition{
			BuildType: provenance.BuildType,
			ExternalParameters: provenance.ExternalParameters{
				Config: provenance.Config{Repository: w.Repository(), Path: "release.yaml"}, Version: w.version.String(), Step: "compile",
			},
			ResolvedDependencies: []provenance.Resource{{
				URI: w.Repository(), Digest: map[string]string{"gitCommit": strings.Repeat("ab", 20)},
			}},
		},
		RunDetails: provenance.RunDetails{Builder: provenance.BuilderID{ID: provenance.BuilderIsolated}},
	}
	rows := []struct {
		name string
		by   string
		edit func(*provenance.Predicate)
		code []verdict.Code
	}{
		{"the genuine one", lab.RoleBuilder, func(*provenance.Predicate) {}, nil},
		{"F18 another builder", lab.RoleBuilder, func(p *provenance.Predicate) { p.RunDetails.Builder.ID = "https://evil.example/builder" }, []verdict.Code{verdict.Builder}},
		{"F18 no builder", lab.RoleBuilder, func(p *provenance.Predicate) { p.RunDetails.Builder.ID = "" }, []verdict.Code{verdict.Builder}},
		{"F18 a level over-claimed", lab.RoleBuilderUnisolated, func(*provenance.Predicate) {}, []verdict.Code{verdict.Builder}},
		{"F18 signed by the release role", lab.RoleRelease, func(*provenance.Predicate) {}, []verdict.Code{verdict.IdentityRole}},
		{"F18 another build type", lab.RoleBuilder, func(p *provenance.Predicate) { p.BuildDefinition.BuildType += "/evil" }, []verdict.Code{verdict.BuildType}},
		{"another repository", lab.RoleBuilder, func(p *provenance.Predicate) {
			p.BuildDefinition.ExternalParameters.Config.Repository = "git+https://evil.example/lantern"
		}, []verdict.Code{verdict.SourceRepo}},
		{"no repository", lab.RoleBuilder, func(p *provenance.Predicate) { p.BuildDefinition.ExternalParameters.Config.Repository = "" }, []verdict.Code{verdict.SourceRepo}},
	}
	subjects := []intoto.Subject{{Name: artifactName, Digests: digest.SetOf([]byte(artifact))}}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			p := good
			r.edit(&p)
			st := must[intoto.Statement](t)(provenance.Encode(subjects, p))
			e := must[verify.Evidence](t)(w.verifier.Attestation(encode(t, w.author(t, r.by).sign(t, envelope(st.Raw())))))
			_, err := provenance.Parse(e.Statement())
			if err == nil {
				err = w.profile.Policy.Provenance(e, w.version.String())
			}
			refused(t, err, r.code...)
		})
	}
}

// TestStatementsWithoutARelease: of a bundle alone, provenance states a build of the
// version whose tag it names, and declares nothing; and a sign-off is a statement of its kind by its role.
func TestStatementsWithoutARelease(t *testing.T) {
	w := theWorld(t)
	r := w.attacked(t)
	text := string(must[[]byte](t)(os.ReadFile(w.Path("policy.yaml"))))
	load := func(old, with string) policy.Policy {
		if !strings.Contains(text, old) {
			t.Fatalf("%q is not in the policy", old)
		}
		return must[policy.Policy](t)(policy.Parse([]byte(strings.Replace(text, old, with, 1)), nil))
	}
	tagged := load("source: {", `source: {ref: "refs/tags/{version}", `)
	evidence := func(raw []byte) verify.Evidence { return must[verify.Evidence](t)(r.verifier.Attestation(raw)) }
	role, err := policy.States(tagged, evidence(r.read(t, compiled)))
	if accepted(t, err); role != policy.Builder {
		t.Errorf("provenance is by the role %q", role)
	}
	r.reattest(t, lab.RoleBuilder, compiled, func(p *provenance.Provenance) {
		p.BuildDefinition.ExternalParameters.Config.Ref = strings.Replace(p.BuildDefinition.ExternalParameters.Config.Ref, "refs/tags/", "refs/heads/", 1)
		for i, d := range p.BuildDefinition.ResolvedDependencies {
			p.BuildDefinition.ResolvedDependencies[i].URI = strings.Replace(d.URI, "refs/tags/", "refs/heads/", 1)
		}
	})
	_, err = policy.States(tagged, evidence(r.read(t, compiled)))
	refused(t, err, verdict.SourceRef)
	_, err = tagged.NewSession().Declaration(evidence(r.read(t, compiled)))
	refused(t, err, verdict.PredicateType)

	signatory := "signatory@lab.invalid"
	signed := load("roles:\n", "signoff: {stages: [release], maxAge: 720h}\nroles:\n  signoff: [{issuer: \""+w.Lab.Issuer+"\", subject: "+signatory+", type: email}]\n")
	for _, row := range []struct {
		by, kind string
		want     bool
	}{{signatory, releasesignoff.PredicateType, true}, {signatory, releasesignoff.SVRType, true}, {signatory, kind, false}, {lab.RoleRelease, releasesignoff.PredicateType, false}} {
		e := evidence(r.sign(t, row.by, []byte(strings.Replace(string(statement()), kind, row.kind, 1))))
		if got := signed.IsSignoff(e); got != row.want {
			t.Errorf("%s by %s: a sign-off is %t", row.kind, row.by, got)
		}
	}
}
