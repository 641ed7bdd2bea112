package format_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/format"
	"github.com/waybill-release/waybill/pkg/testing/bounds"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// row is a row of formats.json, with what only people read.
type row struct {
	format.Format
	Code, Sample, Source string
}

func rows(t testing.TB) (all []row) {
	t.Helper()
	raw, err := os.ReadFile("formats.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func statement(kind, predicate string) string {
	return `{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"pkg:npm/a@1.0.0","digest":{"sha256":"` + strings.Repeat("a", 64) + `"}}],` +
		`"predicateType":"` + kind + `","predicate":` + predicate + `}`
}

func envelope(payload string) string {
	return `{"payloadType":"application/vnd.in-toto+json","payload":"` + encoded(payload) + `","signatures":[{"keyid":"k","sig":"AAAA"}]}`
}

func bundle(payload string) string {
	return `{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"certificate":{"rawBytes":"AAAA"},"tlogEntries":[{}]},"dsseEnvelope":` + envelope(payload) + `}`
}

func npm(published, kind, provenance string) string {
	return `{"attestations":[{"predicateType":"https://example.test/publish","bundle":` + bundle(published) + `},{"predicateType":"` + kind + `","bundle":` + bundle(provenance) + `}]}`
}

func pypi(version string) string {
	return `{"version":` + version + `,"verification_material":{"certificate":"AAAA","transparency_entries":[{}]},"envelope":{"statement":"` + encoded(statement("t", "{}")) + `","signature":"AAAA"}}`
}

func cloudBuild(shown string) string {
	return `{"image_summary":{},"provenance_summary":{"provenance":[{"build":{"intotoStatement":` + shown + `},"envelope":` + envelope(statement("t", `{"n":1.0}`)) + `}]}}`
}

// samples has one text for each row of the table, of the form that its source
// describes.
func samples() map[string]string {
	slsa := "https://slsa.dev/provenance/v1"
	return map[string]string{
		"tlog-proof (C2SP)": "c2sp.org/tlog-proof@v1\nindex 1\n\nexample.test/log\n1\nAAAA\n",
		"Sigstore bundle with a tlog-proof (draft of version 2)": `{"mediaType":"application/vnd.dev.sigstore.bundle.v2+json","tlogProof":{}}`,
		"PyPI attestation (PEP 740)":                             pypi("1"),
		"PyPI provenance (PEP 740)":                              `{"version":1,"attestation_bundles":[{"publisher":{"kind":"GitHub"},"attestations":[` + pypi("1") + `]}]}`,
		"npm attestations":                                       npm(statement("https://example.test/publish", "{}"), slsa, statement(slsa, "{}")),
		"GitHub attestations (REST API)":                         `{"attestations":[{"bundle":` + bundle(statement("t", "{}")) + `,"repository_id":1}]}`,
		"JSON lines (gh attestation download)":                   bundle(statement("t", "{}")) + "\n" + bundle(statement("u", "{}")) + "\n",
		"Cloud Build provenance (gcloud)":                        cloudBuild(shown("t", "1.0")),
		"Homebrew API document (JWS)":                            `{"payload":"[]","signatures":[{"protected":"e30","header":{"kid":"homebrew-1"},"signature":"AAAA"}]}`,
		"Notary signature (JWS)":                                 `{"payload":"e30","protected":"e30","header":{"x5c":[]},"signature":"AAAA"}`,
		"Notary signature (COSE)":                                "\xd2\x84\x43\xa1\x01",
		"Tekton run":                                             `{"apiVersion":"tekton.dev/v1","kind":"TaskRun","metadata":{"annotations":{"chains.tekton.dev/signed":"true"}}}`,
		"TUF metadata":                                           `{"signed":{"_type":"targets","version":1},"signatures":[]}`,
		"in-toto link or layout (signed form)":                   `{"signed":{"_type":"link","name":"build"},"signatures":[]}`,
		"in-toto link or layout (envelope)":                      envelope(`{"_type":"layout"}`),
		"CycloneDX SBOM":                                         `{"bomFormat":"CycloneDX","specVersion":"1.6"}`,
		"SPDX 3 SBOM":                                            `{"@context":"https://spdx.org/rdf/3.0.1/spdx-context.jsonld","@graph":[]}`,
		"SPDX 2 SBOM":                                            `{"spdxVersion":"SPDX-2.3"}`,
		"GitLab artifact metadata":                               statement("https://slsa.dev/provenance/v0.2", `{"buildType":"https://gitlab.com/gitlab-org/gitlab-runner/-/blob/v15.1.0/PROVENANCE.md"}`),
		"in-toto statement":                                      statement(slsa, "{}"),
		"OMS model signature":                                    bundle(statement("https://model_signing/signature/v1.0", "{}")),
		"Witness collection":                                     envelope(statement("https://witness.testifysec.com/attestation-collection/v0.1", "{}")),
		"Google's verification summary":                          envelope(statement("https://slsa.dev/verification_summary/v1", "{}")),
		"Cloud Build provenance":                                 envelope(statement(slsa, `{"runDetails":{"builder":{"id":"https://cloudbuild.googleapis.com/GoogleHostedWorker"}}}`)),
		"BuildKit provenance v0.2":                               envelope(statement("https://slsa.dev/provenance/v0.2", `{"buildType":"https://mobyproject.org/buildkit@v1"}`)),
		"BuildKit provenance v1":                                 bundle(statement(slsa, `{"buildDefinition":{"buildType":"https://github.com/moby/buildkit/blob/master/docs/attestations/slsa-definitions.md"}}`)),
		"OpenVEX in a statement":                                 bundle(statement("https://openvex.dev/ns/v0.2.0", "{}")),
		"in-toto link in a statement":                            bundle(statement("https://in-toto.io/attestation/link/v0.3", "{}")),
		"Sigstore bundle with timestamps and no log entry":       `{"verificationMaterial":{"timestampVerificationData":{"rfc3161Timestamps":[{"signedTimestamp":"AAAA"}]}},"messageSignature":{}}`,
		"Sigstore bundle":                                        bundle(statement("t", "{}")),
		"DSSE envelope":                                          envelope(statement("t", "{}")),
	}
}

// TestTable: each row is recognised by a sample of its own, says what is done,
// and why where nothing is.
func TestTable(t *testing.T) {
	all := samples()
	for _, r := range rows(t) {
		text, there := all[r.Name]
		if got := format.Of([]byte(text)); !there || got.Name != r.Name {
			t.Errorf("the sample of %q is recognised as %q", r.Name, got.Name)
		}
		delete(all, r.Name)
		file, err := format.Read([]byte(text))
		f := verdict.FindingOf("", err)
		switch refused := r.Read == ""; {
		case refused && (f.Code != verdict.MaterialKind || !strings.Contains(f.Message, r.Name+": "+r.Why) || f.Fix != r.Next || r.Why == "" || r.Next == ""):
			t.Errorf("%s: %v, then %q", r.Name, err, f.Fix)
		case !refused && (err != nil || len(file.Entries) == 0):
			t.Errorf("%s: %d entries, %v", r.Name, len(file.Entries), err)
		}
		if r.Sample != "public" && r.Sample != "specification" || !strings.HasPrefix(r.Source, "https://") {
			t.Errorf("%s: sample %q of %q", r.Name, r.Sample, r.Source)
		}
	}
	if len(all) > 0 {
		t.Errorf("samples of no row: %v", all)
	}
}

// TestDocsFormats: the page has the table.
func TestDocsFormats(t *testing.T) {
	var want strings.Builder
	want.WriteString("| form | `verify` | sample |\n|---|---|---|\n")
	for _, r := range rows(t) {
		does := "verified"
		if r.Read == "" {
			r.Code = string(verdict.MaterialKind)
		}
		if r.Code != "" {
			does = "named: " + r.Why + " (`" + r.Code + "`)"
		}
		sample := map[string]string{"public": "public sample tried", "specification": "generated from [the specification](" + r.Source + ")"}[r.Sample]
		fmt.Fprintf(&want, "| %s | %s | %s |\n", r.Name, does, sample)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "formats.md"))
	if err != nil || !strings.Contains(string(page), want.String()) {
		t.Errorf("docs/formats.md (%v) must have this table:\n%s", err, want.String())
	}
}

// TestUnknown: what no row recognises is left to the verifier, unchanged.
func TestUnknown(t *testing.T) {
	for _, text := range []string{"", "hello", "<!DOCTYPE html>", "[]", "null", "{", `{"a":1}`, bundle("{}")[:100], `{"a":1,"a":2}`,
		strings.Replace(pypi("1"), `"envelope":{`, `"envelope":{"signature":"BBBB",`, 1)} {
		file, err := format.Read([]byte(text))
		if err != nil || file.Name != "" || len(file.Entries) != 1 || string(file.Entries[0].Bundle) != text {
			t.Errorf("%q: %q, %v", text, file.Name, err)
		}
	}
}

// TestReadRefuses: each text differs in one fact from one that is read.
func TestReadRefuses(t *testing.T) {
	all, slsa := samples(), "https://slsa.dev/provenance/v1"
	published := statement("https://example.test/publish", "{}")
	one, two := bundle(statement("t", "{}")), bundle(statement("u", "{}"))
	for _, r := range []struct {
		name, refused string
		code          verdict.Code
		read          string
	}{
		{"an empty list", `{"attestations":[]}`, verdict.BundleParse, all["GitHub attestations (REST API)"]},
		{"an empty list of Cloud Build", `{"provenance_summary":{"provenance":[]}}`, verdict.BundleParse, cloudBuild(shown("t", "1.0"))},
		{"an empty list of PyPI", `{"version":1,"attestation_bundles":[]}`, verdict.BundleParse, all["PyPI provenance (PEP 740)"]},
		{"an entry without a bundle", `{"attestations":[{"bundle":null}]}`, verdict.BundleParse, all["GitHub attestations (REST API)"]},
		{"too many entries", `{"attestations":[` + strings.Repeat(`{"bundle":{}},`, 1024) + `{}]}`, verdict.Limit, all["GitHub attestations (REST API)"]},
		{"too many lines", strings.Repeat(one+"\n", 1025), verdict.Limit, one + "\n" + two + "\n"},
		{"a truncated line", one + "\n" + two[:len(two)-9], verdict.BundleParse, one + "\n" + two},
		{"an empty line", one + "\n\n" + two, verdict.BundleParse, one + "\n" + two},
		{"a line that is no bundle", one + "\n{}", verdict.BundleParse, one + "\n" + two},
		{"two bundles on a line", one + two, verdict.BundleParse, one + "\n" + two},
		{"an entry twice", one + "\n" + one + " \n", verdict.BundleParse, one + "\n" + two},
		{"another package", npm(strings.Replace(published, "a@1", "b@1", 1), slsa, statement(slsa, "{}")), verdict.Conflict, npm(published, slsa, statement(slsa, "{}"))},
		{"another package by digest", npm(strings.Replace(published, "aaaa", "bbbb", 1), slsa, statement(slsa, "{}")), verdict.Conflict, npm(published, slsa, statement(slsa, "{}"))},
		{"another type than listed", npm(published, slsa, statement("t", "{}")), verdict.Conflict, npm(published, "t", statement("t", "{}"))},
		{"two of a type", npm(published, "https://example.test/publish", statement("https://example.test/publish", `{"a":1}`)), verdict.Conflict, npm(published, "t", statement("t", `{"a":1}`))},
		{"another version", pypi("2"), verdict.BundleVersion, pypi("1")},
		{"a certificate that is none", strings.Replace(envelope("{}"), `"keyid"`, `"cert":"x","keyid"`, 1), verdict.CertParse,
			strings.Replace(envelope("{}"), `"keyid"`, `"cert":"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n","keyid"`, 1)},
		{"a readable statement of another type", cloudBuild(shown("u", "1.0")), verdict.NotBound, cloudBuild(shown("t", "1.0"))},
		{"a readable statement with another number", cloudBuild(shown("t", "1")), verdict.NotBound, cloudBuild(shown("t", " 1.0"))},
	} {
		_, err := format.Read([]byte(r.refused))
		if got := verdict.FindingOf("", err).Code; err == nil || got != r.code {
			t.Errorf("%s: %v, want %s", r.name, err, r.code)
		}
		if _, err := format.Read([]byte(r.read)); err != nil {
			t.Errorf("%s, the twin: %v", r.name, err)
		}
	}
}

func shown(kind, number string) string {
	return strings.Replace(statement(kind, `{"n":`+number+`}`), `"predicate":`, `"slsaProvenance":`, 1)
}

// FuzzRead: no text makes it fail, or gives a list without entries.
func FuzzRead(f *testing.F) {
	for _, text := range samples() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounds.Bounded(t, raw, func() { _, _ = format.Read(raw) })
		if file, err := format.Read(raw); err == nil && len(file.Entries) == 0 {
			t.Error("no entries")
		}
	})
}

// TestMangled: prefixes of every sample are read or refused.
func TestMangled(t *testing.T) {
	for _, text := range samples() {
		for end := 0; end < len(text); end += 13 {
			if file, err := format.Read([]byte(text[:end])); err == nil && len(file.Entries) != 1 && strings.TrimSpace(text[end:]) != "" {
				t.Errorf("a prefix of %d bytes has %d entries: %s", end, len(file.Entries), text)
			}
		}
	}
}
