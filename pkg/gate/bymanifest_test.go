package gate

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestModeWarn: a manifest that only warns lets through what some listed signer
// signed, and images without any signature only if it says so; the verdict says that
// it only warned.
func TestModeWarn(t *testing.T) {
	const left = "provenance: the manifest only warns if it is insufficient"
	short := verdict.Finding{Code: verdict.Level, Subject: "demo", Message: "too low"}
	for name, row := range map[string]struct {
		policy promoterfile.Policy
		ruling manifestRuling
		want   []verdict.Code
		basis  verdict.Basis
		left   bool
	}{
		"sufficient":                 {promoterfile.Policy{Mode: promoterfile.ModeWarn}, manifestRuling{name: "demo"}, nil, "", false},
		"signed":                     {promoterfile.Policy{Mode: promoterfile.ModeWarn}, manifestRuling{name: "demo", short: make([]verdict.Proof, 1), findings: []verdict.Finding{short}}, nil, "", true},
		"unsigned":                   {promoterfile.Policy{Mode: promoterfile.ModeWarn}, manifestRuling{name: "demo", findings: []verdict.Finding{short}}, []verdict.Code{verdict.NoProof}, "", true},
		"unsigned, and accepted":     {promoterfile.Policy{Mode: promoterfile.ModeWarn, InsecureAcceptUnsigned: true}, manifestRuling{name: "demo", findings: []verdict.Finding{short}}, nil, verdict.InsecureUnsigned, true},
		"signed, for a strict one":   {promoterfile.Policy{Mode: promoterfile.ModeRequire}, manifestRuling{name: "demo", short: make([]verdict.Proof, 1), findings: []verdict.Finding{short}}, []verdict.Code{verdict.Level}, "", false},
		"unsigned, for a strict one": {promoterfile.Policy{Mode: promoterfile.ModeRequire}, manifestRuling{name: "demo", findings: []verdict.Finding{short}}, []verdict.Code{verdict.Level}, "", false},
	} {
		m := &ManifestJudge{ManifestRequest: ManifestRequest{Manifest: "m.yaml", Policy: &row.policy, Now: later()}}
		by, f := m.conclude([]manifestRuling{row.ruling})
		v := by.Decide(f.items[0])
		if got := codesOf(v.Findings); !slices.Equal(got, row.want) || v.Basis != row.basis || slices.Contains(f.left, left) != row.left {
			t.Errorf("%s: %v, basis %q, left out %q", name, v.Findings, v.Basis, f.left)
		}
	}
}

// TestBuilderOfAnImage: a signer may sign for its own builders only, and a builder
// that is not called has no caller to compare.
func TestBuilderOfAnImage(t *testing.T) {
	const own = "https://example.test/builder"
	m := &ManifestJudge{ManifestRequest: ManifestRequest{Manifest: "m.yaml", Policy: &promoterfile.Policy{}}}
	for name, row := range map[string]struct {
		builder       promoterfile.Builder
		id            string
		builds, calls verdict.Code
	}{
		"its own":                  {promoterfile.Builder{ID: own}, own, "", ""},
		"its own, which is called": {promoterfile.Builder{ID: own, Caller: &promoterfile.Caller{}}, own, "", verdict.Workflow},
		"another":                  {promoterfile.Builder{ID: own}, own + "/other", verdict.Builder, ""},
	} {
		b := build{judge: m, signer: &manifestSigner{builders: []promoterfile.Builder{row.builder}}, name: "demo"}
		claim := provenance.Claim{Builder: provenance.Builder{ID: row.id}}
		built, called := b.byBuilder(claim), b.byCaller(claim)
		if f := verdict.FindingOf("", built); (built != nil) != (row.builds != "") || built != nil && (f.Code != row.builds || f.Want != own || f.Got != row.id) {
			t.Errorf("%s: built: %v", name, built)
		}
		if (called != nil) != (row.calls != "") || called != nil && verdict.FindingOf("", called).Code != row.calls {
			t.Errorf("%s: called: %v", name, called)
		}
	}
}

// byGenuine is a policy by which the signer of the test data releases.
func byGenuine(t *testing.T) policy.Policy {
	return validBut(t, `{issuer: "https://accounts.example.test", subject: release@example.test, type: email}`, `{issuer: "http://127.0.0.1:34991", subject: release@lab.invalid, type: email}`,
		"plan: require\n", "plan: require\ntrustRoot: {lab: warn}\n")
}

// TestStrays: a file is accepted together with attestations about it alone.
func TestStrays(t *testing.T) {
	blob, attestation := genuine(t, "blob"), genuine(t, "attestation")
	for name, row := range map[string]struct {
		name    string
		bundles []string
		want    []verdict.Code
	}{
		"a signature": {"bin/linux/amd64/lantern", []string{blob.bundle}, nil},
		"a signature, and an attestation of the file": {"bin/linux/amd64/lantern", []string{blob.bundle, attestation.bundle}, nil},
		"a signature, and an attestation of another":  {"SHA256SUMS", []string{blob.bundle, attestation.bundle}, []verdict.Code{verdict.NotBound}},
		"an attestation of another, and no signature": {"SHA256SUMS", []string{attestation.bundle}, []verdict.Code{verdict.Unsigned}},
	} {
		r := PolicyRequest{Policy: byGenuine(t), Verifier: blob.verifier, Stage: policy.Staging, Version: "v1.2.0", Now: later()}
		v := r.File(t.Context(), JudgedFile{Path: blob.file, Name: row.name, Class: plan.Sums, Bundles: row.bundles})
		if got := codesOf(v.Findings); !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", name, v.Findings, row.want)
		}
	}
}

// TestCountsAsEvidence: a bundle counts if a signer of the policy made it about these
// very bytes.
func TestCountsAsEvidence(t *testing.T) {
	blob, attestation := genuine(t, "blob"), genuine(t, "attestation")
	text, err := os.ReadFile(blob.file)
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		bundle string
		policy policy.Policy
		text   []byte
		want   bool
	}{
		"a signature":                    {blob.bundle, byGenuine(t), text, true},
		"a signature of other bytes":     {blob.bundle, byGenuine(t), nil, false},
		"an attestation":                 {attestation.bundle, byGenuine(t), text, true},
		"an attestation of other bytes":  {attestation.bundle, byGenuine(t), nil, false},
		"an attestation by someone else": {attestation.bundle, validBut(t), text, false},
	} {
		raw, err := os.ReadFile(filepath.Clean(row.bundle))
		if err != nil {
			t.Fatal(err)
		}
		q := policy.Question{Stage: policy.Staging, Class: plan.Sums, Subject: "SHA256SUMS", Bytes: digest.SetOf(row.text), At: later()}
		if got := (PolicyRequest{Policy: row.policy, Verifier: blob.verifier}).Counts(raw, q); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
