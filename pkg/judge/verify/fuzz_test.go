package verify_test

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/testing/bounds"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// the genuine bundles that the fuzzers start from, and what they sign.
func genuine(t testing.TB, name, file string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "genuine", name, file))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

var genuineNames = []string{"blob", "blob-again", "blob-rekor-v1", "blob-key", "attestation", "attestation-rekor-v1", "attestation-sha512", "attestation-key", "attestation-key-id"}

// prover is a keyless or a key verifier.
type prover interface {
	Attestation(raw []byte) (verify.Evidence, error)
	Blob(raw []byte, artifact digest.Set) (verify.Evidence, error)
}

// proof is what evidence says, but for its time: where there are several
// times, a bundle may lose one of them and still hold.
type proof struct {
	who   identity.Identity
	key   digest.Digest
	kind  string
	index int64
	said  string
}

func proofOf(e verify.Evidence) proof {
	return proof{e.Identity(), e.Key(), e.Kind(), e.LogIndex(), string(e.Statement().Raw())}
}

// court asks two verifiers, and knows what the genuine bundles prove. It asks two
// more that leave everything to the library, which must say the same.
type court struct {
	by    []prover
	alone []prover
	set   digest.Set
	known map[proof]bool
}

func newCourt(t testing.TB) court {
	t.Helper()
	c := court{by: provers(t), alone: proversBy(t, alone()), set: digest.SetOf(genuine(t, "blob", "artifact")), known: map[proof]bool{}}
	for _, name := range genuineNames {
		raw, accepted := genuine(t, name, "bundle.sigstore.json"), 0
		for _, e := range c.ask(raw) {
			c.known[proofOf(e)] = true
			accepted++
		}
		if accepted != 1 {
			t.Errorf("%s was accepted by %d of 4 questions", name, accepted)
		}
	}
	return c
}

// ask asks all four questions and returns the evidence there is.
func (c court) ask(raw []byte) (all []verify.Evidence) {
	for _, p := range c.by {
		if e, err := p.Blob(raw, c.set); err == nil {
			all = append(all, e)
		}
		if e, err := p.Attestation(raw); err == nil {
			all = append(all, e)
		}
	}
	return all
}

// alone are the rules by which the library reads everything.
func alone() verify.Rules {
	rules := verify.Default()
	rules.LibraryAlone = true
	return rules
}

// asAlone demands that a bundle is answered as the library answers by itself.
func (c court) asAlone(t *testing.T, raw []byte) {
	t.Helper()
	for i := range c.by {
		for name, ask := range map[string]func(p prover) (verify.Evidence, error){
			"blob":        func(p prover) (verify.Evidence, error) { return p.Blob(raw, c.set) },
			"attestation": func(p prover) (verify.Evidence, error) { return p.Attestation(raw) },
		} {
			e, err := ask(c.by[i])
			whole, errAlone := ask(c.alone[i])
			if (err == nil) != (errAlone == nil) || verdict.FindingOf("", err).Code != verdict.FindingOf("", errAlone).Code {
				t.Errorf("%s: %v, and by the library alone: %v\n%.500s", name, err, errAlone, raw)
			}
			if err == nil && (proofOf(e) != proofOf(whole) || !e.SignedAt().Equal(whole.SignedAt())) {
				t.Errorf("%s: %+v at %s, and by the library alone %+v at %s", name, proofOf(e), e.SignedAt(), proofOf(whole), whole.SignedAt())
			}
		}
	}
}

// judged demands that what is accepted proves what a genuine bundle proves:
// nobody else has the keys.
func (c court) judged(t *testing.T, raw []byte) {
	bounds.Bounded(t, raw, func() {
		_, _ = verify.Read(raw)
		c.asAlone(t, raw)
		all := c.ask(raw)
		if len(all) > 1 {
			t.Errorf("%d answers to one bundle", len(all))
		}
		for _, e := range all {
			if !c.known[proofOf(e)] || !e.Covers("bin/linux/amd64/lantern", c.set) {
				t.Errorf("accepted for something else: %+v", proofOf(e))
			}
		}
	})
}

func provers(t testing.TB) []prover {
	t.Helper()
	return proversBy(t, verify.Default())
}

func proversBy(t testing.TB, rules verify.Rules) []prover {
	t.Helper()
	root, err := trust.Parse(genuine(t, "blob", "trusted_root.json"))
	if err != nil {
		t.Fatal(err)
	}
	keyless, err := verify.NewWith(root, rules)
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

func TestGenuineBundles(t *testing.T) {
	c := newCourt(t)
	for _, name := range genuineNames {
		c.judged(t, genuine(t, name, "bundle.sigstore.json"))
	}
}

// TestMutantsAsTheLibraryReadsThem changes every part of the genuine bundles, in
// many ways each, and every answer must be the library's own.
func TestMutantsAsTheLibraryReadsThem(t *testing.T) {
	c, asked := newCourt(t), 0
	random := rand.New(rand.NewPCG(1, 2))
	for _, name := range genuineNames {
		doc := genuine(t, name, "bundle.sigstore.json")
		for _, path := range parts {
			old, ok := exchange(t, doc, path, nil)
			if !ok || len(old) == 0 {
				continue
			}
			for range 12 {
				value := bytes.Clone(old)
				switch at := random.IntN(len(value)); random.IntN(3) {
				case 0:
					value[at] ^= 1 << random.IntN(8)
				case 1:
					value = value[:at]
				default:
					value = slices.Insert(value, at, byte(random.IntN(256)))
				}
				changed, _ := exchange(t, doc, path, value)
				c.judged(t, changed)
				asked++
			}
		}
		for range 200 {
			changed := bytes.Clone(doc)
			changed[random.IntN(len(changed))] = `0aA+/="{}[],:\ 9`[random.IntN(16)]
			c.judged(t, changed)
			asked++
		}
	}
	if asked < 2000 {
		t.Errorf("%d changes prove little", asked)
	}
}

func FuzzBundle(f *testing.F) {
	for _, name := range genuineNames {
		f.Add(genuine(f, name, "bundle.sigstore.json"))
	}
	c := newCourt(f)
	f.Fuzz(func(t *testing.T, raw []byte) { c.judged(t, raw) })
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
	c := newCourt(f)
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
		if !ok || len(value) > bounds.MaxInput/2 {
			t.Skip("there is no such part")
		}
		c.judged(t, changed)
	})
}

// FuzzCheckpoint and FuzzTimestamp replace what logs and timestamp authorities
// sign, in bundles of both versions of the log.
func FuzzCheckpoint(f *testing.F) { fuzzPart(f, parts[0], "blob", "blob-rekor-v1", "attestation-key") }

func FuzzTimestamp(f *testing.F) { fuzzPart(f, parts[6], "blob", "attestation", "blob-key") }

func fuzzPart(f *testing.F, part []string, names ...string) {
	c := newCourt(f)
	var docs [][]byte
	for i, name := range names {
		docs = append(docs, genuine(f, name, "bundle.sigstore.json"))
		old, ok := exchange(f, docs[i], part, nil)
		if !ok {
			f.Fatalf("%s has no such part", name)
		}
		f.Add(uint8(i), old)
	}
	f.Fuzz(func(t *testing.T, doc uint8, value []byte) {
		changed, ok := exchange(t, docs[int(doc)%len(docs)], part, value)
		if !ok || len(value) > bounds.MaxInput/2 {
			t.Skip("there is no such part")
		}
		c.judged(t, changed)
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
		bounds.Bounded(t, der, func() {
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
