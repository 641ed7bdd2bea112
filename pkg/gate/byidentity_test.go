package gate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/format"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// scene is a file of pkg/judge/verify's test data, and who signed it.
type scene struct {
	file, bundle string // paths
	verifier     *verify.Verifier
	signer       Signer
}

// later is after everything that the test data has was signed.
func later() time.Time { return time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC) }

// content reads a file.
func content(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// genuine opens one of the test data. What has a key in it is signed by that, all
// else by an identity.
func genuine(t *testing.T, name string) (s scene) {
	t.Helper()
	dir := "../judge/verify/testdata/genuine/" + name + "/"
	read := func(file string) []byte { return content(t, dir+file) }
	root, err := trust.Parse(read("trusted_root.json"))
	if err != nil {
		t.Fatal(err)
	}
	if s.verifier, err = verify.New(root); err != nil {
		t.Fatal(err)
	}
	if s.file, s.bundle = dir+"artifact", dir+"bundle.sigstore.json"; strings.HasSuffix(name, "-key") {
		block, _ := pem.Decode(read("key.pub"))
		public, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		k, err := s.verifier.Key(public)
		if err != nil {
			t.Fatal(err)
		}
		s.signer = SignedWith(k)
		return s
	}
	who, err := identity.Exact(identity.Identity{Issuer: strings.TrimSpace(string(read("issuer"))), Subject: strings.TrimSpace(string(read("identity"))), Type: identity.Email})
	if err != nil {
		t.Fatal(err)
	}
	s.signer = SignedBy(s.verifier, who)
	return s
}

// enveloped is a statement about the text "alpha" as the file a, which a new key
// signed, in an envelope without a log entry.
func enveloped(t *testing.T, kind, predicate string) (*verify.KeyVerifier, []byte) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	v, err := verify.New(trust.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	key, err := v.Key(secret.Public())
	if err != nil {
		t.Fatal(err)
	}
	e := intoto.Envelope{PayloadType: intoto.PayloadType, Payload: fmt.Appendf(nil,
		`{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"a","digest":{"sha256":%q}}],"predicateType":%q,"predicate":%s}`,
		digest.Of(digest.SHA256, []byte("alpha")).Hex(), kind, predicate)}
	sum := sha256.Sum256(e.PAE())
	sig, err := ecdsa.SignASN1(rand.Reader, secret, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(map[string]any{"payloadType": e.PayloadType, "payload": e.Payload, "signatures": []any{map[string]any{"sig": sig}}})
	if err != nil {
		t.Fatal(err)
	}
	return key, raw
}

// keyed is verified evidence of such a statement.
func keyed(t *testing.T, kind, predicate string) verify.Evidence {
	t.Helper()
	key, raw := enveloped(t, kind, predicate)
	file, err := format.Read(raw)
	if err != nil {
		t.Fatal(err)
	}
	e, err := key.InsecureEnvelope(file.Entries[0].Bundle)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// fileOf writes a file, and returns its path.
func fileOf(t *testing.T, raw []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// codesOf are those of the findings.
func codesOf(found []verdict.Finding) (all []verdict.Code) {
	for _, f := range found {
		all = append(all, f.Code)
	}
	return all
}

// TestFilesByIdentity: evidence by the required identity or key is accepted if it
// is about the file, and each row differs from one that is in one thing.
func TestFilesByIdentity(t *testing.T) {
	const kind, other = "https://example.test/predicate/v1", "https://example.test/another/v1"
	byName, byKey, long, blob := genuine(t, "attestation"), genuine(t, "attestation-key"), genuine(t, "attestation-sha512"), genuine(t, "blob")
	ask := func(s scene, kind string) Ask { return Ask{Signer: s.signer, Type: kind} }
	raw, err := os.ReadFile(byName.bundle)
	if err != nil {
		t.Fatal(err)
	}
	more, err := os.ReadFile(byKey.bundle)
	if err != nil {
		t.Fatal(err)
	}
	list := fileOf(t, slices.Concat(raw, []byte("\n"), more))
	signature, err := os.ReadFile(blob.bundle)
	if err != nil {
		t.Fatal(err)
	}
	long384 := fileOf(t, []byte(strings.Replace(string(signature), "SHA2_256", "SHA2_384", 1)))
	half := fileOf(t, []byte(`{"base64Signature":"AAAA"}`))
	sum, err := File{Path: byName.file}.hash(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	named := ask(long, kind)
	named.Subject = "another"
	for name, row := range map[string]struct {
		file File
		ask  Ask
		want []verdict.Code
	}{
		"an identity":                       {File{Path: byName.file, Bundle: byName.bundle}, ask(byName, kind), nil},
		"a key":                             {File{Path: byKey.file, Bundle: byKey.bundle}, ask(byKey, kind), nil},
		"an identity, and a digest alone":   {File{Digest: sum.SHA256, Bundle: byName.bundle}, ask(byName, kind), nil},
		"the other digest":                  {File{Digest: sum.SHA512, Bundle: long.bundle}, ask(long, kind), nil},
		"a digest that it does not have":    {File{Digest: sum.SHA256, Bundle: long.bundle}, ask(long, kind), []verdict.Code{verdict.NoArtifact}},
		"neither the digest nor the name":   {File{Digest: sum.SHA256, Bundle: long.bundle}, named, []verdict.Code{verdict.NotBound}},
		"a list":                            {File{Path: byName.file, Bundle: list}, ask(byName, kind), nil},
		"a list of another type":            {File{Path: byName.file, Bundle: list}, ask(byName, other), []verdict.Code{verdict.PredicateNone}},
		"a signature":                       {File{Path: blob.file, Bundle: blob.bundle}, ask(blob, ""), nil},
		"a signature of a SHA-384 digest":   {File{Path: blob.file, Bundle: long384}, ask(blob, ""), []verdict.Code{"DIGEST_HINT"}},
		"an older form without certificate": {File{Path: blob.file, Bundle: half}, ask(blob, ""), []verdict.Code{verdict.CertMissing}},
		"a certificate without signature":   {File{Path: blob.file, Certificate: blob.bundle}, ask(blob, ""), []verdict.Code{verdict.Usage}},
	} {
		v := Files(t.Context(), FileRequest{Files: []File{row.file}, Ask: row.ask, Now: later()})
		if got := codesOf(v.Findings); !slices.Equal(got, row.want) || (v.Err() == nil) != (row.want == nil) {
			t.Errorf("%s: %v, want %v", name, v.Findings, row.want)
		}
		if v.TrustRoot != row.ask.Signer.verifier.Root().Digest() {
			t.Errorf("%s: trust root %s", name, v.TrustRoot)
		}
		if subject := row.file.Path + row.file.Digest.String(); !strings.HasSuffix(v.Question, subject) && row.file.Path == "" {
			t.Errorf("%s: the question is %q", name, v.Question)
		}
		if len(v.Levels) > 0 || slices.ContainsFunc(v.Notes, func(n string) bool { return strings.Contains(n, "level") }) {
			t.Errorf("%s: levels of no provenance: %v %q", name, v.Levels, v.Notes)
		}
		if len(row.want) > 0 && row.want[0] == verdict.PredicateNone && !strings.Contains(v.Findings[0].Message, "no statement of the list has type "+other+"; it has "+kind) {
			t.Errorf("%s: %s", name, v.Findings[0].Message)
		}
	}
}

// TestOnlyTheKeyProves: an envelope alone is accepted only where the caller accepts
// that, and the verdict says that nothing else proves it.
func TestOnlyTheKeyProves(t *testing.T) {
	const kind = "https://example.test/predicate/v1"
	key, raw := enveloped(t, kind, "{}")
	file, bundle, logged := fileOf(t, []byte("alpha")), fileOf(t, raw), genuine(t, "attestation-key")
	for name, row := range map[string]struct {
		file   File
		signer Signer
		want   []verdict.Code
		tells  bool
	}{
		"accepted":             {File{Path: file, Bundle: bundle}, SignedWith(key).InsecureEnvelopes(), nil, true},
		"not accepted":         {File{Path: file, Bundle: bundle}, SignedWith(key), []verdict.Code{verdict.LogMissing}, false},
		"in a log, and a time": {File{Path: logged.file, Bundle: logged.bundle}, logged.signer.InsecureEnvelopes(), nil, false},
	} {
		v := Files(t.Context(), FileRequest{Files: []File{row.file}, Ask: Ask{Signer: row.signer, Type: kind}, Now: later()})
		if got := codesOf(v.Findings); !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", name, v.Findings, row.want)
		}
		if tells := slices.ContainsFunc(v.Sentences, func(s string) bool { return strings.Contains(s, "only the key proves the envelope") }); tells != row.tells {
			t.Errorf("%s: it says %q", name, v.Sentences)
		}
	}
}

// TestSummaryPassed: a summary counts only if its result is PASSED in each field that
// states one: versions of the format name that field differently.
func TestSummaryPassed(t *testing.T) {
	const kind = "https://slsa.dev/verification_summary/v1"
	for predicate, want := range map[string][]verdict.Code{
		`{"verificationResult":"PASSED"}`:                                    nil,
		`{"verification_result":"PASSED"}`:                                   nil,
		`{"verificationResult":"PASSED","verification_result":"PASSED"}`:     nil,
		`{"verificationResult":"PASSED","verification_result":"FAILED"}`:     {verdict.VSAResult},
		`{"verificationResult":"FAILED","verification_result":"PASSED"}`:     {verdict.VSAResult},
		`{"verificationResult":"FAILED"}`:                                    {verdict.VSAResult},
		`{"verificationResult":{"PASSED":1},"verification_result":"PASSED"}`: {verdict.VSAResult},
		`{}`: {verdict.VSAResult},
	} {
		key, raw := enveloped(t, kind, predicate)
		v := Files(t.Context(), FileRequest{Files: []File{{Path: fileOf(t, []byte("alpha")), Bundle: fileOf(t, raw)}}, Ask: Ask{Signer: SignedWith(key).InsecureEnvelopes(), Type: kind}, Now: later()})
		if got := codesOf(v.Findings); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", predicate, v.Findings, want)
		}
	}
}

// TestLevelsOfAFile: a verdict has the levels of provenance by a builder that the
// caller trusts, and at most level 1 by another builder.
func TestLevelsOfAFile(t *testing.T) {
	const builder = "https://example.test/builder"
	key, raw := enveloped(t, provenance.PredicateType, `{"buildDefinition":{"buildType":"https://example.test/type","externalParameters":{"a":"b"}},"runDetails":{"builder":{"id":"`+builder+`"}}}`)
	for id, levels := range map[string][]string{builder: {"build 2", "v0.1 1"}, builder + "/another": {"build 1", "v0.1 1"}} {
		known, err := slsa.NewTrust([]slsa.Pair{{Key: key.Digest(), BuilderID: id, Level: 2}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		v := Files(t.Context(), FileRequest{Files: []File{{Path: fileOf(t, []byte("alpha")), Bundle: fileOf(t, raw)}}, Now: later(),
			Ask: Ask{Signer: SignedWith(key).InsecureEnvelopes(), Type: provenance.PredicateType, Levels: Levels{Builders: known}}})
		var got []string
		for _, on := range v.Levels {
			got = append(got, fmt.Sprint(on.Track, " ", on.Level))
		}
		if v.Err() != nil || !slices.Equal(got, levels) {
			t.Errorf("%s: %v, levels %q, want %q", id, v.Findings, got, levels)
		}
	}
}

// TestCountByReason: evidence that does not count is counted by the reason.
func TestCountByReason(t *testing.T) {
	misses := []miss{
		{Finding: verdict.Finding{Code: verdict.PredicateNone}}, {Finding: verdict.Finding{Code: verdict.PredicateNone}},
		{Finding: verdict.Finding{Code: verdict.NotBound}}, {Finding: verdict.Finding{Code: verdict.Identity}, foreign: true}, {Finding: verdict.Finding{Code: verdict.BundleParse}},
	}
	if got, want := countByReason(misses), "1 about another artifact, 1 by another signer, 1 invalid: BUNDLE_PARSE, 2 of another type"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestMergeKeepsOrder: of several judges the verdict lists what each used, in their
// order, and each thing once.
func TestMergeKeepsOrder(t *testing.T) {
	v, second := verdict.New("q", later()), verdict.New("q", later())
	v.Inputs = []verdict.Input{{Name: "image"}, {Name: "first"}}
	second.Inputs = []verdict.Input{{Name: "second"}, {Name: "image"}}
	merge(v, second)
	if want := []verdict.Input{{Name: "image"}, {Name: "first"}, {Name: "second"}}; !slices.Equal(v.Inputs, want) {
		t.Errorf("%v, want %v", v.Inputs, want)
	}
}
