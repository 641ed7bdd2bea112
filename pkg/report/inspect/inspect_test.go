package inspect_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/report/inspect"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/policies"
)

const sum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

const policyYAML = `apiVersion: waybill/v1
kind: Policy
name: lantern-release
roles:
  release: [{issuer: "https://accounts.example.test", subject: release@example.test, type: email}]
builders:
- id: https://example.test/builder
  level: 1
  signers: [{issuer: "https://accounts.example.test", subject: builder@example.test, type: email}]
source: {repository: "https://example.test/lantern"}
require:
- stages: [staging, release]
  classes: [binary, archive, file, image]
  checks: {provenance: require, signature: require, sbom: require}
- {stages: [staging, release], classes: [image-child], checks: {provenance: require, signature: require}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: require
closed: {files: require, images: require}
`

const profileYAML = `apiVersion: waybill/v1
kind: Profile
name: lantern
policy: policy.yaml
trustedRoot: trusted_root.json
places:
  files: {canonical: "https://dl.example.test/{version}/", release: "https://dl.example.test/{version}/"}
`

const releaseYAML = `apiVersion: waybill/v1
kind: Release # of a lantern
name: lantern
source: {repository: "https://example.test/lantern"}
steps:
- name: compile
  run: [make]
  outputs: [{class: binary, name: lantern}]
places: {files: "https://dl.example.test/{version}/"}
`

func statement(predicateType, predicate string) string {
	return fmt.Sprintf(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"lantern","digest":{"sha256":%q}}],"predicateType":%q,"predicate":%s}`,
		sum, predicateType, predicate)
}

func envelope(payloadType, payload string) string {
	return fmt.Sprintf(`{"payloadType":%q,"payload":%q,"signatures":[{"sig":"AAAA","keyid":"hint"}]}`,
		payloadType, base64.StdEncoding.EncodeToString([]byte(payload)))
}

func provenance() string {
	return statement("https://slsa.dev/provenance/v1", `{"buildDefinition":{"buildType":"https://example.test/type","externalParameters":{"ref":"main"}},`+
		`"runDetails":{"builder":{"id":"https://example.test/builder"}}}`)
}

// certificate makes a certificate of somebody whom no trust root knows.
func certificate(t testing.TB) []byte {
	t.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(255), Subject: pkix.Name{CommonName: "stranger"}, NotBefore: at, NotAfter: at.Add(time.Minute),
		URIs: []*url.URL{{Scheme: "https", Host: "stranger.invalid", Path: "/x"}},
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func publicKey(t testing.TB) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public())
	if err != nil {
		t.Fatal(err)
	}
	return block("PUBLIC KEY", der)
}

func sbom(t testing.TB) string {
	t.Helper()
	raw, err := spdx.Encode(spdx.Draft{
		Name: "lantern", Namespace: "https://example.test/lantern", Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Tool: "test",
		Packages:      []spdx.Package{{ID: "SPDXRef-Artifact", Name: "lantern", Version: "v1", Digests: digest.SetOf(nil)}},
		Relationships: []spdx.Relationship{{From: spdx.DocumentID, Type: spdx.Describes, To: "SPDXRef-Artifact"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

const linesSBOM = `SPDXVersion: SPDX-2.3
DataLicense: CC0-1.0
SPDXID: SPDXRef-DOCUMENT
DocumentName: lantern
DocumentNamespace: https://example.test/lantern
Creator: Tool: other-1.0
Created: 2024-05-01T12:00:00Z
Relationship: SPDXRef-DOCUMENT DESCRIBES SPDXRef-a

PackageName: lantern
SPDXID: SPDXRef-a
PackageDownloadLocation: NOASSERTION
FilesAnalyzed: false
`

// documents are one of each kind, with something that it says.
func documents(t testing.TB) map[string]struct {
	raw  string
	kind inspect.Kind
	says string
} {
	cert := certificate(t)
	bundle := fmt.Sprintf(`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"publicKey":{"hint":"a key"},"timestampVerificationData":{"rfc3161Timestamps":[{"signedTimestamp":"AAAA"}]}},"dsseEnvelope":%s}`,
		envelope("application/vnd.in-toto+json", provenance()))
	return map[string]struct {
		raw  string
		kind inspect.Kind
		says string
	}{
		"bundle":              {bundle, inspect.Bundle, `a public key with hint "a key"`},
		"envelope":            {envelope("application/vnd.in-toto+json", provenance()), inspect.Envelope, "https://example.test/builder"},
		"envelope of text":    {envelope("text/plain", "hello"), inspect.Envelope, "text/plain"},
		"statement":           {statement("https://example.test/p", `{"a":{"b":[1,true,null,{}]}}`), inspect.Statement, "a.b[1]  true"},
		"older statement":     {strings.Replace(provenance(), "Statement/v1", "Statement/v0.1", 1), inspect.Statement, "Statement/v0.1"},
		"lines":               {envelope("text/plain", "a") + "\n" + envelope("text/html", "b") + "\n", inspect.Collection, "text/html"},
		"collection":          {`{"attestations":[{"bundle":` + bundle + `}]}`, inspect.Collection, "sigstore bundle"},
		"certificate":         {block("CERTIFICATE", cert), inspect.Certificate, "uri https://stranger.invalid/x"},
		"DER":                 {string(cert), inspect.Certificate, "CN=stranger"},
		"encoded certificate": {base64.StdEncoding.EncodeToString([]byte(block("CERTIFICATE", cert))) + "\n", inspect.Certificate, "Ed25519"},
		"chain":               {block("CERTIFICATE", cert) + block("CERTIFICATE", cert), inspect.Collection, "CN=stranger"},
		"public key":          {publicKey(t), inspect.PublicKey, "Ed25519"},
		"SBOM":                {sbom(t), inspect.SBOM, "lantern sha256:" + sum},
		"SBOM 2.2":            {strings.Replace(sbom(t), "SPDX-2.3", "SPDX-2.2", 1), inspect.SBOM, "SPDX-2.2"},
		"SBOM in lines":       {linesSBOM, inspect.SBOM, "lantern"},
		"CycloneDX":           {`{"bomFormat":"CycloneDX","specVersion":"1.6","metadata":{"component":{"type":"file","name":"lantern"}}}`, inspect.CycloneDX, "lantern"},
		"trusted root":        {string(trust.Embedded().Raw()), inspect.TrustRoot, "timestamp authority"},
		"policy":              {policyYAML, inspect.Policy, "release@example.test"},
		"profile":             {profileYAML, inspect.Profile, "https://dl.example.test/{version}/"},
		"release.yaml":        {releaseYAML, inspect.Release, "steps[0].run[0]"},
		"lock":                {"apiVersion: waybill/v1\nkind: Lock\nbases: {}\n", inspect.Lock, "bases       nothing"},
		"known defects":       {defectsYAML(t), inspect.KnownDefects, "wrong-signer-v1.24.8"},
		"verdict":             {`{"schema":"waybill/verdict/v1","findings":[]}`, inspect.Verdict, "findings"},
	}
}

func defectsYAML(t testing.TB) string {
	t.Helper()
	raw, err := policies.Read("kubernetes-known-defects")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func text(t testing.TB, d inspect.Document) string {
	t.Helper()
	var out bytes.Buffer
	if err := inspect.Write(&out, inspect.Text, d, d.Lint()...); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestDescribe(t *testing.T) {
	for name, row := range documents(t) {
		t.Run(name, func(t *testing.T) {
			d, err := inspect.Describe([]byte(row.raw))
			if err != nil {
				t.Fatal(err)
			}
			if d.Kind != row.kind || d.Digest != digest.Of(digest.SHA256, []byte(row.raw)) {
				t.Errorf("kind %q, digest %s", d.Kind, d.Digest)
			}
			if page := text(t, d); !strings.HasPrefix(page, "PARSED, NOT VERIFIED") || !strings.Contains(page, row.says) {
				t.Errorf("the page does not say %q:\n%s", row.says, page)
			}
			var out bytes.Buffer
			if err := inspect.Write(&out, inspect.JSON, d); err != nil {
				t.Fatal(err)
			}
			if !json.Valid(out.Bytes()) || !strings.Contains(out.String(), `"verified": false`) {
				t.Errorf("JSON %.300s", out.String())
			}
		})
	}
}

// TestDescribeRefuses: what cannot be read without doubt is refused by the
// name that the verifier has for it; each is a document of [documents] with
// one thing changed.
func TestDescribeRefuses(t *testing.T) {
	docs := documents(t)
	change := func(name, old, with string) string {
		t.Helper()
		if !strings.Contains(docs[name].raw, old) {
			t.Fatalf("%s has no %q", name, old)
		}
		return strings.Replace(docs[name].raw, old, with, 1)
	}
	rows := []struct {
		name, raw string
		code      verdict.Code
	}{
		{"nothing", "", verdict.Usage},
		{"text", "hello", verdict.Usage},
		{"a number", "1", verdict.Usage},
		{"JSON of nothing known", `{"hello":1}`, verdict.Usage},
		{"torn JSON", docs["bundle"].raw[:100], verdict.BundleParse},
		{"a key twice in a bundle", change("bundle", `"mediaType"`, `"mediaType":"x","mediaType"`), verdict.BundleParse},
		{"a bundle of the future", change("bundle", "bundle.v0.3", "bundle.v9.9"), verdict.BundleVersion},
		{"a key twice in a statement", change("statement", `"predicateType"`, `"predicateType":"x","predicateType"`), verdict.StatementParse},
		{"a statement of another type", change("statement", "Statement/v1", "Statement/v9"), verdict.StatementType},
		{"a digest in upper case", change("statement", "e3b0", "E3B0"), verdict.StatementParse},
		{"a provenance of another shape", change("older statement", `"runDetails":{"builder":{"id":"https://example.test/builder"}}`, `"runDetails":[]`), verdict.StatementParse},
		{"an envelope without payload", `{"payloadType":"text/plain","signatures":[]}`, verdict.BundleParse},
		{"two documents on one line", docs["envelope"].raw + docs["envelope"].raw, verdict.BundleParse},
		{"two documents on one line of two", docs["lines"].raw + docs["envelope"].raw + docs["envelope"].raw, verdict.BundleParse},
		{"one bad line", docs["lines"].raw + "{}\n", verdict.Usage},
		{"a manifest that is none", statement("https://github.com/waybill-release/waybill/attestations/release-manifest/v1", "{}"), verdict.ManifestParse},
		{"a torn certificate", block("CERTIFICATE", []byte("x")), verdict.CertParse},
		{"rubbish after a certificate", docs["certificate"].raw + "rubbish", verdict.CertParse},
		{"a private key", block("PRIVATE KEY", []byte("secret")), verdict.Usage},
		{"an SBOM of another version", change("SBOM", "SPDX-2.3", "SPDX-9.9"), verdict.StatementParse},
		{"an SBOM in lines without its time", change("SBOM in lines", "Created: 2024", "Created: never, 2024"), verdict.StatementParse},
		{"CycloneDX of another version", change("CycloneDX", `"1.6"`, `"1.3"`), verdict.StatementParse},
		{"a root that trusts nobody", `{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1","tlogs":[]}`, verdict.TrustRootParse},
		{"an unknown key in a policy", docs["policy"].raw + "extra: 1\n", verdict.ConfigParse},
		{"an unknown key in a profile", docs["profile"].raw + "extra: 1\n", verdict.ConfigParse},
		{"an unknown key in release.yaml", docs["release.yaml"].raw + "extra: 1\n", verdict.ConfigParse},
		{"a verdict with a key twice", `{"findings":[],"findings":[]}`, verdict.ConfigParse},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			d, err := inspect.Describe([]byte(row.raw))
			if got := verdict.FindingOf("", err).Code; err == nil || got != row.code {
				t.Errorf("got %v (%s), want %s", err, got, row.code)
			}
			if d.Kind != "" || len(d.Fields)+len(d.Parts) > 0 {
				t.Errorf("a refusal comes with %+v", d)
			}
		})
	}
}

// TestForeignTextIsHarmless: what a stranger wrote does not act on a terminal
// and does not look like a line of ours.
func TestForeignTextIsHarmless(t *testing.T) {
	d, err := inspect.Describe([]byte(statement("https://example.test/p", `{"a":"\u001b[2J\nVERIFIED by everybody","\u001b[1m":1}`)))
	if err != nil {
		t.Fatal(err)
	}
	page := text(t, d)
	if strings.ContainsRune(page, '\x1b') || strings.Contains(page, "\nVERIFIED") {
		t.Errorf("the page acts: %q", page)
	}
}

// TestLint: what a provenance contradicts in itself is named, wherever it is
// found; other documents have nothing to contradict.
func TestLint(t *testing.T) {
	docs := documents(t)
	for name, linted := range map[string]bool{"bundle": true, "envelope": true, "older statement": true, "statement": false, "policy": false} {
		d, err := inspect.Describe([]byte(docs[name].raw))
		if err != nil {
			t.Fatal(err)
		}
		if got := len(d.Lint()) > 0; got != linted {
			t.Errorf("%s: notes %v, want any: %t", name, d.Lint(), linted)
		}
		if d.HasProvenance() != linted {
			t.Errorf("%s: it has provenance: %t, want %t", name, d.HasProvenance(), linted)
		}
	}
}

func TestWriteKnowsItsFormats(t *testing.T) {
	err := inspect.Write(&bytes.Buffer{}, "poem", inspect.Document{})
	if verdict.FindingOf("", err).Code != verdict.Usage {
		t.Errorf("got %v, want %s", err, verdict.Usage)
	}
}

// FuzzDescribe: no bytes bring it down, and what it accepts can be printed.
func FuzzDescribe(f *testing.F) {
	for _, row := range documents(f) {
		f.Add([]byte(row.raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := inspect.Describe(raw)
		if err != nil {
			if verdict.FindingOf("", err).Code == verdict.InternalBug {
				t.Errorf("a refusal without a name: %v", err)
			}
			return
		}
		if page := text(t, d); strings.ContainsRune(page, '\x1b') {
			t.Errorf("the page acts: %q", page)
		}
	})
}

// TestLinesOfAValue: a value of several lines is readable, and none of its lines
// can pass for another field.
func TestLinesOfAValue(t *testing.T) {
	var b strings.Builder
	d := inspect.Document{Kind: "x", Fields: []inspect.Field{{Name: "pem", Value: "-----BEGIN X-----\r\nAA==\nkind  y\x1b[2J\n"}, {Name: "end", Value: "one\n"}}}
	if err := inspect.Write(&b, inspect.Text, d); err != nil {
		t.Fatal(err)
	}
	if want := "  pem  | -----BEGIN X-----\n       | AA==\n       | kind  y\ufffd[2J\n  end  one\n"; !strings.HasSuffix(b.String(), want) {
		t.Errorf("%q\nwant at the end\n%q", b.String(), want)
	}
}
