package verify_test

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/trust"
	"github.com/waybill-release/waybill/pkg/verify"
)

// What one input may cost.
const (
	maxInput  = 1 << 20
	maxAlloc  = 100 << 20
	maxMoment = time.Second
)

// bounded runs a parser and demands that it stays within what one input may
// cost. Everything that is allocated counts, also what is freed again.
func bounded(t *testing.T, raw []byte, parse func()) {
	t.Helper()
	if len(raw) > maxInput {
		t.Skip("larger than what is fuzzed")
	}
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before, start := sample[0].Value.Uint64(), time.Now()
	parse()
	took := time.Since(start)
	metrics.Read(sample)
	if bytes := sample[0].Value.Uint64() - before; took > maxMoment || bytes > maxAlloc {
		t.Errorf("%d bytes of input took %s and %d bytes of memory", len(raw), took, bytes)
	}
}

// the genuine bundles that the fuzzers start from, and what they sign.
func genuine(t testing.TB, name, file string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "genuine", name, file))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

var genuineNames = []string{"blob", "blob-again", "blob-rekor-v1", "blob-key", "attestation", "attestation-sha512", "attestation-key", "attestation-key-id"}

// prover is a keyless or a key verifier.
type prover interface {
	Attestation(raw []byte) (verify.Evidence, error)
	Blob(raw []byte, artifact digest.Set) (verify.Evidence, error)
}

func provers(t testing.TB) []prover {
	t.Helper()
	root, err := trust.Parse(genuine(t, "blob", "trusted_root.json"))
	if err != nil {
		t.Fatal(err)
	}
	keyless, err := verify.New(root)
	if err != nil {
		t.Fatal(err)
	}
	keyed, err := keyless.Key(publicKey(t))
	if err != nil {
		t.Fatal(err)
	}
	return []prover{keyless, keyed}
}

func publicKey(t testing.TB) crypto.PublicKey {
	t.Helper()
	block, _ := pem.Decode(genuine(t, "blob-key", "key.pub"))
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return public
}

// judged asks everything of one bundle. What is accepted must say what one of
// the genuine bundles says: nobody else has the keys.
func judged(t *testing.T, by []prover, raw []byte) {
	set := digest.SetOf(genuine(t, "blob", "artifact"))
	bounded(t, raw, func() {
		_, _ = verify.Read(raw)
		for _, p := range by {
			blob, errBlob := p.Blob(raw, set)
			said, errSaid := p.Attestation(raw)
			if errBlob == nil && errSaid == nil || errBlob != nil && !blob.IsZero() || errSaid != nil && !said.IsZero() {
				t.Fatalf("two answers to one question: %v, %v", errBlob, errSaid)
			}
			if e := blob; errBlob == nil && (e.Kind() != "blob" || !e.Covers("any", set) || !known(e)) {
				t.Fatalf("accepted for something else: %+v", e)
			}
			if e := said; errSaid == nil && (!e.Covers("bin/linux/amd64/lantern", set) || !known(e)) {
				t.Fatalf("accepted for something else: %+v", e)
			}
		}
	})
}

func known(e verify.Evidence) bool {
	byKey := !e.Key().IsZero()
	return byKey && e.Identity().Subject == "" || !byKey && e.Identity().Subject == "release@lab.invalid"
}

func TestGenuineBundles(t *testing.T) {
	by, set := provers(t), digest.SetOf(genuine(t, "blob", "artifact"))
	for _, name := range genuineNames {
		raw, accepted := genuine(t, name, "bundle.sigstore.json"), 0
		judged(t, by, raw)
		for _, p := range by {
			if _, err := p.Blob(raw, set); err == nil {
				accepted++
			}
			if _, err := p.Attestation(raw); err == nil {
				accepted++
			}
		}
		if accepted != 1 {
			t.Errorf("%s was accepted by %d of 4 questions", name, accepted)
		}
	}
}

func FuzzBundle(f *testing.F) {
	for _, name := range genuineNames {
		f.Add(genuine(f, name, "bundle.sigstore.json"))
	}
	by := provers(f)
	f.Fuzz(func(t *testing.T, raw []byte) { judged(t, by, raw) })
}

// parts are where the pieces of a bundle stand that have a parser of their
// own: log entries, checkpoints, timestamps, certificates, signatures.
var parts = [][]string{
	{"verificationMaterial", "tlogEntries", "0", "inclusionProof", "checkpoint", "envelope"},
	{"verificationMaterial", "tlogEntries", "0", "canonicalizedBody"},
	{"verificationMaterial", "tlogEntries", "0", "inclusionProof", "rootHash"},
	{"verificationMaterial", "tlogEntries", "0", "inclusionProof", "hashes", "0"},
	{"verificationMaterial", "tlogEntries", "0", "inclusionPromise", "signedEntryTimestamp"},
	{"verificationMaterial", "tlogEntries", "0", "logId", "keyId"},
	{"verificationMaterial", "timestampVerificationData", "rfc3161Timestamps", "0", "signedTimestamp"},
	{"verificationMaterial", "certificate", "rawBytes"},
	{"messageSignature", "signature"},
	{"messageSignature", "messageDigest", "digest"},
	{"dsseEnvelope", "payload"},
	{"dsseEnvelope", "signatures", "0", "sig"},
}

// FuzzBundlePart replaces one piece of a genuine bundle, so that the parser
// of that piece is reached and not only the one around it.
func FuzzBundlePart(f *testing.F) {
	by := provers(f)
	var docs [][]byte
	for i, name := range genuineNames {
		docs = append(docs, genuine(f, name, "bundle.sigstore.json"))
		for j, path := range parts {
			if old, ok := exchange(f, docs[i], path, nil); ok {
				f.Add(uint8(i), uint8(j), old)
			}
		}
	}
	f.Fuzz(func(t *testing.T, doc, part uint8, value []byte) {
		changed, ok := exchange(t, docs[int(doc)%len(docs)], parts[int(part)%len(parts)], value)
		if !ok || len(value) > maxInput/2 {
			t.Skip("there is no such part")
		}
		judged(t, by, changed)
	})
}

// exchange puts a value at a place and returns the whole, or, without one, the
// value that stands there.
func exchange(t testing.TB, doc []byte, path []string, value []byte) ([]byte, bool) {
	t.Helper()
	var whole any
	if err := json.Unmarshal(doc, &whole); err != nil {
		t.Fatal(err)
	}
	at := whole
	for _, name := range path[:len(path)-1] {
		at = below(at, name)
	}
	last := path[len(path)-1]
	text, ok := below(at, last).(string)
	if !ok {
		return nil, false
	}
	encoded := base64.StdEncoding.EncodeToString(value)
	if last == "envelope" { // the one part that is text
		encoded = string(bytes.ToValidUTF8(value, []byte("?")))
		if value == nil {
			return []byte(text), true
		}
	}
	if value == nil {
		old, err := base64.StdEncoding.DecodeString(text)
		return old, err == nil
	}
	switch at := at.(type) {
	case map[string]any:
		at[last] = encoded
	case []any:
		at[0] = encoded
	}
	changed, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	return changed, true
}

func below(at any, name string) any {
	switch at := at.(type) {
	case map[string]any:
		return at[name]
	case []any:
		if len(at) > 0 {
			return at[0]
		}
	}
	return nil
}

func FuzzCertificate(f *testing.F) {
	for _, name := range []string{"blob", "attestation", "blob-rekor-v1"} {
		der, ok := exchange(f, genuine(f, name, "bundle.sigstore.json"), []string{"verificationMaterial", "certificate", "rawBytes"}, nil)
		if !ok {
			f.Fatal("a bundle without certificate")
		}
		f.Add(der)
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		bounded(t, der, func() {
			who, err := verify.CertificateIdentity(der)
			if err == nil && who.Check() != nil {
				t.Errorf("read as an identity that cannot be: %v", who)
			}
			if _, errClaims := verify.CertificateClaims(der); err == nil && errClaims != nil {
				t.Errorf("an identity, but no claims: %v", errClaims)
			}
		})
	})
}
