package verify

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// material is a parsed bundle, with nothing verified yet.
type material struct {
	entity    *bundle.Bundle
	raw       []byte
	leaf      *x509.Certificate // nil if a key signed
	content   sigstore.VerificationContent
	signature []byte                    // set by readSignature, like
	message   sigstore.SignatureContent // nil: an envelope is signed
	named     *named                    // identity in the certificate; nil: not read yet
	entries   []*tlog.Entry
	unread    bool // all entries are as expected and were not parsed
}

// open parses the outer form of a bundle of version 0.1 to 0.3. Its contents
// are counted and measured before any of them is parsed in turn.
func open(raw []byte) (*bundle.Bundle, error) {
	if len(raw) > MaxBundle {
		return nil, verdict.Refuse(verdict.Limit, "bundle", "%d bytes, the limit is %d", len(raw), MaxBundle)
	}
	form, is := readLarge(raw, large)
	if !is {
		var err error
		if form, err = readForm(raw); err != nil {
			return nil, err
		}
	}
	// The library checks everything but the entries, which may not need to be
	// parsed: see expectedBody.
	vm := form.GetVerificationMaterial()
	outer := &protobundle.Bundle{MediaType: form.GetMediaType(), Content: form.GetContent()}
	if vm != nil {
		outer.VerificationMaterial = &protobundle.VerificationMaterial{Content: vm.GetContent()}
	}
	b, err := bundle.NewBundle(outer)
	if err != nil {
		code := verdict.BundleParse
		if errors.Is(err, bundle.ErrUnsupportedMediaType) {
			code = verdict.BundleVersion
		}
		return nil, verdict.Wrap(code, "bundle", err)
	}
	b.Bundle = form
	return b, nil
}

// readForm parses a bundle as its specification requires.
func readForm(raw []byte) (*protobundle.Bundle, error) {
	if err := checkStructure("bundle", raw, maxStructure); err != nil {
		return nil, err
	}
	if err := strictjson.Check(raw); err != nil {
		return nil, verdict.Wrap(verdict.BundleParse, "bundle", err)
	}
	form := &protobundle.Bundle{}
	if err := protojson.Unmarshal(raw, form); err != nil {
		return nil, verdict.Wrap(verdict.BundleParse, "bundle", err)
	}
	if err := checkCounts(form); err != nil {
		return nil, err
	}
	if err := checkText(raw); err != nil {
		return nil, err
	}
	return form, checkForm(form)
}

// readEntries parses the bodies of the log entries, but not of those that
// [recordedStatement] verifies, which the library does not know.
func readEntries(b *bundle.Bundle) ([]*tlog.Entry, error) {
	if slices.ContainsFunc(b.GetVerificationMaterial().GetTlogEntries(), isStatement) {
		return nil, nil
	}
	entries, err := b.TlogEntries()
	if err != nil {
		return nil, verdict.Wrap(verdict.BundleParse, "bundle", err)
	}
	return entries, nil
}

// parse parses a bundle. Counts and sizes are checked before certificates are
// parsed, and keys before they are used.
func parse(raw []byte, seen *memory) (material, error) {
	b, err := open(raw)
	if err != nil {
		return material{}, err
	}
	m := material{entity: b, raw: raw}
	if err := m.readCertificate(seen); err != nil {
		return material{}, err
	}
	if m.unread = !seen.alone && m.allExpected(); m.unread {
		return m, nil
	}
	m.entries, err = readEntries(b)
	return m, err
}

// readCertificate parses the signer's certificate, if there is one. A
// certificate that was proven before is recognized by its bytes.
func (m *material) readCertificate(seen *memory) error {
	if all := certificates(m.entity.GetVerificationMaterial()); len(all) > 0 {
		if who, ok := seen.leaves.find(all[0]); ok {
			m.named, m.content, m.leaf = who, who.content, who.content.Certificate()
			return nil
		}
	}
	var err error
	if m.content, err = m.entity.VerificationContent(); err != nil {
		return verdict.Wrap(verdict.CertParse, "certificate", err)
	}
	if m.leaf = m.content.Certificate(); m.leaf != nil {
		return checkProfile(m.leaf)
	}
	return nil
}

// readSignature reads the signature. The library is used for a plain signature
// only: it would encode the payload of an envelope as base64 again.
func (m *material) readSignature() error {
	if envelope := m.entity.GetDsseEnvelope(); envelope != nil {
		if envelope.GetPayload() == nil || len(envelope.GetSignatures()) != 1 {
			return verdict.Wrap(verdict.BundleParse, "bundle", bundle.ErrMissingEnvelope)
		}
		m.signature = envelope.GetSignatures()[0].GetSig()
		return nil
	}
	var err error
	if m.message, err = m.entity.SignatureContent(); err != nil {
		return verdict.Wrap(verdict.BundleParse, "bundle", err)
	}
	m.signature = m.message.Signature()
	return nil
}

// statement returns the payload of an in-toto attestation, not yet proven.
func (m material) statement() ([]byte, error) {
	envelope := m.entity.GetDsseEnvelope()
	if envelope == nil {
		return nil, verdict.Refuse(verdict.MaterialKind, "bundle", "the bundle contains a blob signature, not an attestation")
	}
	if n := len(envelope.GetSignatures()); n != 1 {
		return nil, verdict.Refuse(verdict.SigCount, "bundle", "want exactly one signature, got %d", n)
	}
	if envelope.GetPayloadType() != intoto.PayloadType {
		return nil, verdict.Refuse(verdict.PayloadType, "bundle", "payload type %q, want that of an in-toto statement: %q", envelope.GetPayloadType(), intoto.PayloadType)
	}
	envelope.Signatures[0].Keyid = "" // DSSE: the hint is unsigned, so nothing may depend on it
	return envelope.GetPayload(), nil
}

// bind compares a blob signature with the bytes that it must cover. Their SHA-384
// digest is nil where nothing hashed them so.
func (m material) bind(artifact digest.Set, sha384 []byte) error {
	message := m.entity.GetMessageSignature()
	if message == nil {
		return verdict.Refuse(verdict.MaterialKind, "bundle", "the bundle contains an attestation, not a blob signature")
	}
	said := message.GetMessageDigest()
	if said == nil {
		return nil // only the signature binds it
	}
	if want := digestIn(artifact, said.GetAlgorithm()); !want.IsZero() && bytes.Equal(want.Bytes(), said.GetDigest()) {
		return nil
	}
	if sha384 != nil && said.GetAlgorithm() == protocommon.HashAlgorithm_SHA2_384 {
		if bytes.Equal(sha384, said.GetDigest()) {
			return nil
		}
		return &verdict.Error{Finding: verdict.Find(verdict.NotBound, "bundle", "the bundle signs other bytes").Differ(hex.EncodeToString(sha384), hex.EncodeToString(said.GetDigest()))}
	}
	return m.notBound(artifact, said)
}

// newKeyMaterial makes a trust root in which exactly one key may sign.
func newKeyMaterial(base root.TrustedMaterial, public crypto.PublicKey) (keyMaterial, error) {
	if err := CheckKey(public); err != nil {
		return keyMaterial{}, err
	}
	loaded, err := signature.LoadDefaultVerifier(public)
	if err != nil {
		return keyMaterial{}, verdict.Wrap(verdict.CertLimit, "public key", err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return keyMaterial{}, verdict.Wrap(verdict.CertLimit, "public key", err)
	}
	return keyMaterial{
		TrustedMaterial: base, public: public, digest: digest.Of(digest.SHA256, der),
		verifier: root.NewExpiringKey(loaded, time.Time{}, time.Time{}),
	}, nil
}
