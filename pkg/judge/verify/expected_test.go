package verify

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	rekornote "github.com/sigstore/rekor-tiles/v2/pkg/note"
	"github.com/sigstore/rekor/pkg/util"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// ownLog is a log of version 1 whose key the test has: it can have logged what
// no honest log would, so that nothing but the body decides.
type ownLog struct {
	root.TrustedMaterial
	key *ecdsa.PrivateKey
	log *root.TransparencyLog
}

func newOwnLog(t testing.TB, material root.TrustedMaterial) *ownLog {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &ownLog{material, key, &root.TransparencyLog{
		BaseURL: "https://log.example.test", ID: bytes.Repeat([]byte{7}, 32), ValidityPeriodStart: time.Unix(1, 0),
		HashFunc: crypto.SHA256, PublicKey: key.Public(), SignatureHashFunc: crypto.SHA256,
	}}
}

// RekorLogs are the one log.
func (o *ownLog) RekorLogs() map[string]*root.TransparencyLog {
	return map[string]*root.TransparencyLog{hex.EncodeToString(o.log.ID): o.log}
}

// took has the log take a body in, as its only entry.
func (o *ownLog) took(t testing.TB, e *protorekor.TransparencyLogEntry, body []byte) {
	t.Helper()
	e.LogId.KeyId, e.LogIndex, e.CanonicalizedBody = o.log.ID, 0, body
	promised, err := json.Marshal(map[string]any{
		"body": base64.StdEncoding.EncodeToString(body), "integratedTime": e.GetIntegratedTime(), "logID": hex.EncodeToString(o.log.ID), "logIndex": 0,
	})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(promised)
	if e.InclusionPromise.SignedEntryTimestamp, err = ecdsa.SignASN1(rand.Reader, o.key, sum[:]); err != nil {
		t.Fatal(err)
	}
	by, err := signature.LoadECDSASigner(o.key, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	p := e.InclusionProof
	p.LogIndex, p.TreeSize, p.Hashes, p.RootHash = 0, 1, nil, rfc6962.DefaultHasher.HashLeaf(body)
	checkpoint, err := util.CreateAndSignCheckpoint(context.Background(), "log.example.test", 1, 1, p.RootHash, by)
	if err != nil {
		t.Fatal(err)
	}
	p.Checkpoint.Envelope = string(checkpoint)
}

// tookV2 does the same as a log of version 2, which signs only checkpoints.
func (o *ownLog) tookV2(t testing.TB, e *protorekor.TransparencyLogEntry, body []byte) {
	t.Helper()
	e.LogId.KeyId, e.LogIndex, e.CanonicalizedBody, e.IntegratedTime, e.InclusionPromise = o.log.ID, 0, body, 0, nil
	by, err := signature.LoadECDSASigner(o.key, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := rekornote.NewNoteSigner(t.Context(), "log.example.test", by)
	if err != nil {
		t.Fatal(err)
	}
	p := e.InclusionProof
	p.LogIndex, p.TreeSize, p.Hashes, p.RootHash = 0, 1, nil, rfc6962.DefaultHasher.HashLeaf(body)
	checkpoint, err := note.Sign(&note.Note{Text: "log.example.test\n1\n" + base64.StdEncoding.EncodeToString(p.RootHash) + "\n"}, signer)
	if err != nil {
		t.Fatal(err)
	}
	p.Checkpoint.Envelope = string(checkpoint)
}

// bothWays asks whether the entry is proven as expected, and what the library
// says of it. What is asked in both ways is what the library says.
func (o *ownLog) bothWays(t testing.TB, m material) (fast bool, err error) {
	t.Helper()
	seen := newMemory(o)
	m.unread = m.allExpected()
	quick, fast := asExpected(m, 1, seen)
	slow := m
	var full logged
	if slow.entries, err = readEntries(m.entity); err == nil {
		full, err = included(slow, o, 1)
	}
	if fast && (err != nil || quick.index != full.index || !slices.Equal(quick.times, full.times) || !slices.Equal(quick.by, full.by)) {
		t.Errorf("proven as expected: %+v, and the library says %+v, %v", quick, full, err)
	}
	var errBoth error
	if !m.unread {
		m.entries, errBoth = readEntries(m.entity)
	}
	if errBoth == nil {
		_, errBoth = recorded(&m, o, 1, seen)
	}
	if (errBoth == nil) != (err == nil) || codeIn(errBoth) != codeIn(err) {
		t.Errorf("both ways say %v, the library %v", errBoth, err)
	}
	return fast, err
}

func codeIn(err error) verdict.Code {
	var refused *verdict.Error
	if errors.As(err, &refused) {
		return refused.Finding.Code
	}
	return ""
}

// bodyRow changes one fact of a body that a log took in.
type bodyRow struct {
	name   string
	change func(body string) string
	fast   bool
	code   verdict.Code
}

func replaced(old, by string) func(string) string {
	return func(body string) string { return strings.Replace(body, old, by, 1) }
}

// flipped changes the first character of the value that follows a text.
func flipped(after string) func(string) string {
	return func(body string) string {
		head, rest, _ := strings.Cut(body, after)
		other := "0"
		if rest[0] == '0' {
			other = "1"
		}
		return head + after + other + rest[1:]
	}
}

func TestEntryBodies(t *testing.T) {
	m, v := known(t, "attestation-rekor-v1")
	stranger := text(nil, certificatePEM(v.material.FulcioCertificateAuthorities()[0].(*root.FulcioCertificateAuthority).Root.Raw))
	own := text(nil, certificatePEM(m.leaf.Raw))
	const sent, payload = `"envelopeHash":{"algorithm":"sha256","value":"`, `"payloadHash":{"algorithm":"sha256","value":"`
	of := func(name string, rows []bodyRow) {
		m, v := known(t, name)
		o := newOwnLog(t, v.material)
		entry := m.entity.GetVerificationMaterial().GetTlogEntries()[0]
		body := string(entry.GetCanonicalizedBody())
		for _, r := range rows {
			changed := r.change(body)
			if changed == body && r.name != "as it is" {
				t.Errorf("%s: %s: nothing was changed", name, r.name)
			}
			o.took(t, entry, []byte(changed))
			fast, err := o.bothWays(t, m)
			if fast != r.fast || codeIn(err) != r.code {
				t.Errorf("%s: %s: fast %t, want %t; %v, want %q", name, r.name, fast, r.fast, err, r.code)
			}
		}
	}
	same := func(body string) string { return body }
	of("attestation-rekor-v1", []bodyRow{
		{"as it is", same, true, ""},
		{"another digest of what was sent", flipped(sent), true, ""},
		{"a digest of what was sent in capitals", func(b string) string {
			at := strings.Index(b, sent) + len(sent)
			return b[:at] + strings.ToUpper(b[at:at+64]) + b[at+64:]
		}, false, ""},
		{"a digest of what was sent that is too long", replaced(sent, sent+"0"), false, ""},
		{"a digest of what was sent that is none", replaced(sent, sent+"g"), false, ""},
		{"a digest of what was sent of another algorithm", replaced(`"envelopeHash":{"algorithm":"sha256"`, `"envelopeHash":{"algorithm":"sha512"`), false, verdict.BundleParse},
		{"another payload", flipped(payload), false, verdict.LogEntryUnbound},
		{"a payload of another algorithm", replaced(`"payloadHash":{"algorithm":"sha256"`, `"payloadHash":{"algorithm":"sha512"`), false, verdict.BundleParse},
		{"another signature", replaced(`"signature":"ME`, `"signature":"MF`), false, verdict.LogSigMismatch},
		{"no signature", func(b string) string {
			head, _, _ := strings.Cut(b, `"signatures":[`)
			return head + `"signatures":[]}}`
		}, false, verdict.BundleParse},
		{"another certificate", replaced(string(own), string(stranger)), false, verdict.LogKeyMismatch},
		{"another signer's signature before", replaced(`[{`, `[{"signature":"MEUC","verifier":"`+string(stranger)+`"},{`), false, verdict.LogSigMismatch},
		{"another signer's signature behind", replaced(`"}]`, `"},{"signature":"MEUC","verifier":"`+string(stranger)+`"}]`), false, ""},
		{"another version", replaced(`"apiVersion":"0.0.1"`, `"apiVersion":"0.0.2"`), false, verdict.BundleParse},
		{"another kind", replaced(`"kind":"dsse"`, `"kind":"hashedrekord"`), false, verdict.BundleParse},
		{"white space", replaced(`:`, `: `), false, ""},
		{"one more member", replaced(`"spec":{`, `"spec":{"a":1,`), false, ""},
		{"a member twice, the last of which counts", replaced(`"signatures":[`, payload+strings.Repeat("0", 64)+`"},"signatures":[`), false, verdict.LogEntryUnbound},
	})
	of("blob-rekor-v1", []bodyRow{
		{"as it is", same, true, ""},
		{"another digest", flipped(`"hash":{"algorithm":"sha256","value":"`), false, verdict.BundleParse},
		{"another algorithm", replaced(`"algorithm":"sha256"`, `"algorithm":"sha384"`), false, verdict.BundleParse},
		{"another signature", replaced(`"signature":{"content":"ME`, `"signature":{"content":"MF`), false, verdict.BundleParse},
		{"another version", replaced(`"apiVersion":"0.0.1"`, `"apiVersion":"0.0.2"`), false, verdict.BundleParse},
		{"another kind", replaced(`"kind":"hashedrekord"`, `"kind":"dsse"`), false, verdict.BundleParse},
		{"white space", replaced(`:`, `: `), false, ""},
	})
}

// Whatever else an entry has is proven as well, whichever way its body is read.
func TestEntryAroundItsBody(t *testing.T) {
	rows := map[string]func(e *protorekor.TransparencyLogEntry){
		"the promise": func(e *protorekor.TransparencyLogEntry) { e.InclusionPromise.SignedEntryTimestamp[20] ^= 1 },
		"the time":    func(e *protorekor.TransparencyLogEntry) { e.IntegratedTime++ },
		"no time":     func(e *protorekor.TransparencyLogEntry) { e.IntegratedTime = 0 },
		"the place":   func(e *protorekor.TransparencyLogEntry) { e.LogIndex++ },
		"the log":     func(e *protorekor.TransparencyLogEntry) { e.LogId.KeyId = bytes.Repeat([]byte{8}, 32) },
		"the root":    func(e *protorekor.TransparencyLogEntry) { e.InclusionProof.RootHash[0] ^= 1 },
		"the size":    func(e *protorekor.TransparencyLogEntry) { e.InclusionProof.TreeSize++ },
		"the proof": func(e *protorekor.TransparencyLogEntry) {
			e.InclusionProof.Hashes = [][]byte{e.InclusionProof.RootHash}
		},
		"no checkpoint": func(e *protorekor.TransparencyLogEntry) { e.InclusionProof.Checkpoint.Envelope = "" },
		"the checkpoint": func(e *protorekor.TransparencyLogEntry) {
			e.InclusionProof.Checkpoint.Envelope = strings.Replace(e.InclusionProof.Checkpoint.Envelope, "\n1\n", "\n2\n", 1)
		},
	}
	codes := map[string]verdict.Code{"the root": verdict.LogProof, "the checkpoint": verdict.CheckpointSig}
	for name, change := range rows {
		m, v := known(t, "attestation-rekor-v1")
		o := newOwnLog(t, v.material)
		entry := m.entity.GetVerificationMaterial().GetTlogEntries()[0]
		o.took(t, entry, entry.GetCanonicalizedBody())
		if fast, err := o.bothWays(t, m); !fast || err != nil {
			t.Errorf("%s: the twin: fast %t, %v", name, fast, err)
		}
		change(entry)
		if fast, err := o.bothWays(t, m); fast || err == nil || codes[name] != "" && codeIn(err) != codes[name] {
			t.Errorf("%s was changed: fast %t, %v, want %s", name, fast, err, codes[name])
		}
	}
}

// What the bundle says is what the entry must be of.
func TestEntryOfAnotherBundle(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m *material)
		code   verdict.Code
	}{
		"the payload":   {func(m *material) { m.entity.GetDsseEnvelope().Payload[0] ^= 1 }, verdict.LogEntryUnbound},
		"the signature": {func(m *material) { m.entity.GetDsseEnvelope().Signatures[0].Sig[9] ^= 1 }, verdict.LogSigMismatch},
		"no payload":    {func(m *material) { m.entity.GetDsseEnvelope().Payload = nil }, verdict.BundleParse},
		"no signature":  {func(m *material) { m.entity.GetDsseEnvelope().Signatures = nil }, verdict.LogSigMismatch},
		"two signatures": {func(m *material) {
			envelope := m.entity.GetDsseEnvelope()
			envelope.Signatures = append(envelope.Signatures, envelope.Signatures[0])
		}, ""}, // refused before, by their number
	} {
		m, v := known(t, "attestation-rekor-v1")
		o := newOwnLog(t, v.material)
		entry := m.entity.GetVerificationMaterial().GetTlogEntries()[0]
		o.took(t, entry, entry.GetCanonicalizedBody())
		c.change(&m)
		if fast, err := o.bothWays(t, m); fast || codeIn(err) != c.code {
			t.Errorf("%s was changed: fast %t, %v, want %s", name, fast, err, c.code)
		}
	}
}

// TestEntriesOfVersion2: an entry of a log of version 2 is proven as expected only
// if it is for what the bundle signs, once, in an entry of that version.
func TestEntriesOfVersion2(t *testing.T) {
	same := func(material, *protorekor.TransparencyLogEntry) {}
	for name, c := range map[string]struct {
		bundle string
		change func(m material, e *protorekor.TransparencyLogEntry)
		empty  bool // the log took in an empty body
		fast   bool
		code   verdict.Code
	}{
		"an attestation": {"attestation", same, false, true, ""},
		"no signature":   {"attestation", func(m material, _ *protorekor.TransparencyLogEntry) { m.entity.GetDsseEnvelope().Signatures = nil }, false, false, verdict.LogSigMismatch},
		"two signatures": {"attestation", func(m material, _ *protorekor.TransparencyLogEntry) {
			envelope := m.entity.GetDsseEnvelope()
			envelope.Signatures = append(envelope.Signatures, envelope.Signatures[0])
		}, false, false, ""}, // refused before, by their number
		"no payload": {"attestation", func(m material, _ *protorekor.TransparencyLogEntry) { m.entity.GetDsseEnvelope().Payload = nil }, false, false, verdict.BundleParse},
		"an entry of version 1 that is called one of version 2": {"attestation-rekor-v1", func(_ material, e *protorekor.TransparencyLogEntry) { e.KindVersion.Version = "0.0.2" }, false, false, verdict.LogKind},
		"signed with a key":                    {"attestation-key", same, false, false, verdict.LogKeyMismatch},
		"signed with a key, and an empty body": {"attestation-key", same, true, false, verdict.BundleParse},
	} {
		m, v := known(t, c.bundle)
		o := newOwnLog(t, v.material)
		entry := m.entity.GetVerificationMaterial().GetTlogEntries()[0]
		body := entry.GetCanonicalizedBody()
		if c.empty {
			body = []byte{}
		}
		o.tookV2(t, entry, body)
		c.change(m, entry)
		if fast, err := o.bothWays(t, m); fast != c.fast || codeIn(err) != c.code {
			t.Errorf("%s: fast %t, want %t; %v, want %q", name, fast, c.fast, err, c.code)
		}
	}
}

// FuzzEntryBody: what is proven without being read, the library proves as well.
func FuzzEntryBody(f *testing.F) {
	m, v := known(f, "attestation-rekor-v1")
	o := newOwnLog(f, v.material)
	entry := m.entity.GetVerificationMaterial().GetTlogEntries()[0]
	f.Add(entry.GetCanonicalizedBody())
	other, _ := known(f, "blob-rekor-v1")
	f.Add(other.entity.GetVerificationMaterial().GetTlogEntries()[0].GetCanonicalizedBody())
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) == 0 || len(body) > maxBody {
			t.Skip("no entry has such a body")
		}
		o.took(t, entry, body)
		_, _ = o.bothWays(t, m)
	})
}
