package legacy

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sigstore/cosign/v2/pkg/cosign/bundle"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// kindStatement is the kind of entries for attestations until 2023. They have no
// signature, but the hash of the envelope's text.
const kindStatement = "intoto 0.0.1"

// maxHashes limits an inclusion proof: more would be a tree with more than 2^64
// leaves.
const maxHashes = 64

// Entry is an entry of a Rekor v1 log, not yet verified: its subject, the
// promise of the log, and the proof of inclusion.
type Entry struct {
	kind, version string
	body          []byte
	integrated    int64
	index         int64
	log           []byte
	promise       []byte
	proof         *proof
	said          said
}

type proof struct {
	checkpoint  string
	hashes      [][]byte
	index, size int64
	root        []byte
}

// said is the content of an entry's body, for any kind of entry.
type said struct {
	blob      bool
	digest    string // "sha256:…" of the blob, or of the payload
	envelope  string // "sha256:…" of the text of an envelope, as it was sent
	signature []byte
	signer    []byte // PEM
}

// Kind names the kind of entry and its version.
func (e Entry) Kind() string { return e.kind + " " + e.version }

// IsZero reports whether e is the zero Entry.
func (e Entry) IsZero() bool { return len(e.body) == 0 }

// entryFrom parses the part that all forms of an entry share.
func entryFrom(w bundle.RekorPayload) (Entry, error) {
	e := Entry{integrated: w.IntegratedTime, index: w.LogIndex}
	body, _ := w.Body.(string)
	var err error
	if e.log, err = hex.DecodeString(w.LogID); err != nil || len(e.log) == 0 {
		return Entry{}, refuseEntry("the log ID of the entry is not hexadecimal")
	}
	if e.body, err = decodeBase64([]byte(body)); err != nil || len(e.body) == 0 {
		return Entry{}, refuseEntry("the body of the entry is not base64")
	}
	if e.index < 0 || e.integrated < 0 {
		return Entry{}, refuseEntry("the index or the time of the entry is negative")
	}
	return e, e.readBody()
}

func refuseEntry(format string, args ...any) error {
	return verdict.Refuse(verdict.LogEntryParse, "log entry", format, args...)
}

// wireBody is the part that the bodies of all kinds share.
type wireBody struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Spec       wireSpec `json:"spec"`
}

// wireSpec combines the specifications of all kinds.
type wireSpec struct {
	Data struct { // hashedrekord
		Hash wireHash `json:"hash"`
	} `json:"data"`
	Signature struct { // hashedrekord
		Content   []byte `json:"content"`
		PublicKey struct {
			Content []byte `json:"content"`
		} `json:"publicKey"`
	} `json:"signature"`
	EnvelopeHash wireHash   `json:"envelopeHash"` // dsse
	PayloadHash  wireHash   `json:"payloadHash"`  // dsse
	Signatures   []struct { // dsse
		Signature []byte `json:"signature"`
		Verifier  []byte `json:"verifier"`
	} `json:"signatures"`
	Content struct { // intoto
		Hash        wireHash `json:"hash"`
		PayloadHash wireHash `json:"payloadHash"`
		Envelope    struct {
			Signatures []struct {
				Sig       []byte `json:"sig"` // base64 in base64
				PublicKey []byte `json:"publicKey"`
			} `json:"signatures"`
		} `json:"envelope"`
	} `json:"content"`
	PublicKey []byte `json:"publicKey"` // intoto 0.0.1
}

type wireHash struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"value"`
}

func (h wireHash) String() string { return h.Algorithm + ":" + h.Value }

// text returns the digest, or "" if it is zero.
func (h wireHash) text() string {
	if h.Value == "" {
		return ""
	}
	return h.String()
}

// readBody parses the body of an entry. A body of an unknown kind gives the
// zero value: a log contains many kinds, and a search returns them too.
func (e *Entry) readBody() error {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := strictjson.UnmarshalOpen(e.body, &head); err != nil {
		return verdict.Wrap(verdict.LogEntryParse, "log entry", err)
	}
	e.kind, e.version = head.Kind, head.APIVersion
	var b wireBody
	switch e.Kind() {
	case "hashedrekord 0.0.1", "dsse 0.0.1", kindStatement, "intoto 0.0.2":
		if err := strictjson.UnmarshalOpen(e.body, &b); err != nil {
			return verdict.Wrap(verdict.LogEntryParse, "log entry", err)
		}
	}
	switch e.Kind() {
	case "hashedrekord 0.0.1":
		s := b.Spec.Signature
		e.said = said{blob: true, digest: b.Spec.Data.Hash.String(), signature: s.Content, signer: s.PublicKey.Content}
	case "dsse 0.0.1":
		if len(b.Spec.Signatures) != 1 {
			return refuseEntry("the entry has %d signatures, want 1", len(b.Spec.Signatures))
		}
		s := b.Spec.Signatures[0]
		e.said = said{digest: b.Spec.PayloadHash.String(), envelope: b.Spec.EnvelopeHash.text(), signature: s.Signature, signer: s.Verifier}
	case kindStatement:
		e.said = said{digest: b.Spec.Content.PayloadHash.text(), envelope: b.Spec.Content.Hash.text(), signer: b.Spec.PublicKey}
	case "intoto 0.0.2":
		if len(b.Spec.Content.Envelope.Signatures) != 1 {
			return refuseEntry("the entry has %d signatures, want 1", len(b.Spec.Content.Envelope.Signatures))
		}
		s := b.Spec.Content.Envelope.Signatures[0]
		signature, err := decodeBase64(s.Sig)
		if err != nil {
			return refuseEntry("the signature in the entry is not base64 of base64")
		}
		e.said = said{digest: b.Spec.Content.PayloadHash.String(), envelope: b.Spec.Content.Hash.text(), signature: signature, signer: s.PublicKey}
	}
	return nil
}

// bind requires that an entry is for this artifact, this signature and this
// certificate.
func (m Material) bind(e Entry) error {
	if e.Kind() == kindStatement && m.IsAttestation() {
		if e.said.envelope != digest.Of(digest.SHA256, m.writing(writings[0])).String() {
			return verdict.Refuse(verdict.LogEntryUnbound, "log entry", "the entry is for another envelope")
		}
		e.said.digest, e.said.signature = m.signed.String(), m.signature // which that text contains
	}
	switch {
	case e.said.blob == m.IsAttestation() || e.said.digest == "":
		return verdict.Refuse(verdict.LogEntryUnbound, "log entry", "the entry is of kind %s, which does not fit this signature", e.Kind())
	case e.said.digest != m.signed.String():
		return &verdict.Error{Finding: verdict.Find(verdict.LogEntryUnbound, "log entry", "the entry is for another artifact").
			Differ(m.signed.String(), e.said.digest)}
	case !bytes.Equal(e.said.signature, m.signature):
		return verdict.Refuse(verdict.LogSigMismatch, "log entry", "the entry is for another signature of the same artifact")
	case m.leaf() == nil:
		return nil // the caller has the key; the verifier compares it with the entry
	}
	block, _ := pem.Decode(e.said.signer)
	if block == nil || block.Type != pemCertificate || !bytes.Equal(block.Bytes, m.leaf()) {
		return verdict.Refuse(verdict.LogKeyMismatch, "log entry", "the entry is for another certificate or key")
	}
	return nil
}

// recordOf returns the body that a log stores for a blob signature.
func recordOf(m Material) []byte {
	certificate := pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: m.leaf()})
	return fmt.Appendf(nil, `{"apiVersion":"0.0.1","kind":"hashedrekord","spec":{"data":{"hash":{"algorithm":"sha256","value":"%s"}},`+
		`"signature":{"content":"%s","publicKey":{"content":"%s"}}}}`, m.signed.Hex(),
		base64.StdEncoding.EncodeToString(m.signature), base64.StdEncoding.EncodeToString(certificate))
}

// wireAnswer is an entry in an answer of the log's API.
type wireAnswer struct {
	bundle.RekorPayload
	Verification struct {
		SignedEntryTimestamp []byte `json:"signedEntryTimestamp"`
		InclusionProof       *struct {
			Checkpoint string   `json:"checkpoint"`
			Hashes     []string `json:"hashes"`
			LogIndex   int64    `json:"logIndex"`
			RootHash   string   `json:"rootHash"`
			TreeSize   int64    `json:"treeSize"`
		} `json:"inclusionProof"`
	} `json:"verification"`
}

// ParseAnswer parses one entry in an answer of a log's API, and the name that
// the answer gives to it. It refuses an entry under a name that is not its own.
func ParseAnswer(raw []byte) (name string, e Entry, err error) {
	var answer map[string]wireAnswer
	if err := strictjson.UnmarshalOpen(raw, &answer, strictjson.MaxSize(MaxBundle)); err != nil {
		return "", Entry{}, verdict.Wrap(verdict.LogEntryParse, "log entry", err)
	}
	if len(answer) != 1 {
		return "", Entry{}, refuseEntry("the answer has %d entries, want 1", len(answer))
	}
	name = slices.Collect(maps.Keys(answer))[0]
	w := answer[name]
	if e, err = entryFrom(w.RekorPayload); err != nil {
		return "", Entry{}, err
	}
	if !strings.HasSuffix(name, leafHash(e.body)) {
		return "", Entry{}, verdict.Refuse(verdict.LogEntryUnbound, "log entry", "the log returned this entry under the name %.100q, which is that of another entry", name)
	}
	e.promise = w.Verification.SignedEntryTimestamp
	if len(e.promise) == 0 && w.Verification.InclusionProof == nil {
		return "", Entry{}, verdict.Refuse(verdict.LogProof, "log entry", "the entry has neither an inclusion promise nor a proof")
	}
	if p := w.Verification.InclusionProof; p != nil {
		e.proof = &proof{checkpoint: p.Checkpoint, index: p.LogIndex, size: p.TreeSize}
		if len(p.Hashes) > maxHashes {
			return "", Entry{}, verdict.Refuse(verdict.Limit, "log entry", "the proof has %d hashes, the limit is %d", len(p.Hashes), maxHashes)
		}
		if err := e.proof.decode(p.RootHash, p.Hashes); err != nil {
			return "", Entry{}, err
		}
	}
	return name, e, nil
}

func (p *proof) decode(root string, hashes []string) (err error) {
	if p.root, err = hex.DecodeString(root); err != nil {
		return refuseEntry("the root hash of the proof is not hexadecimal")
	}
	for _, text := range hashes {
		hash, err := hex.DecodeString(text)
		if err != nil {
			return refuseEntry("a hash of the proof is not hexadecimal")
		}
		p.hashes = append(p.hashes, hash)
	}
	return nil
}
