package verify

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/intoto"
	"github.com/waybill-release/waybill/pkg/trust"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// MaxBundle bounds a bundle before anything in it is looked at.
const MaxBundle = 64 << 20

// minBundle is the oldest bundle version that carries what we ask for in one
// certificate, one inclusion proof and one timestamp.
const minBundle = "v0.3"

// Verifier verifies bundles against one trust root. It is safe for use by
// several goroutines.
type Verifier struct {
	root     trust.Root
	material root.TrustedMaterial
	sigstore *sigstore.Verifier
}

// New prepares a verifier, once for many bundles.
func New(r trust.Root) (*Verifier, error) {
	if r.IsZero() {
		return nil, verdict.Refuse(verdict.TrustRootParse, "trust root", "no trust root was given")
	}
	material, err := root.NewTrustedRootFromJSON(r.Raw())
	if err != nil {
		return nil, verdict.Wrap(verdict.TrustRootParse, "trust root", err)
	}
	v, err := sigstore.NewVerifier(material,
		sigstore.WithSignedCertificateTimestamps(1),
		sigstore.WithTransparencyLog(1),
		sigstore.WithSignedTimestamps(1),
	)
	if err != nil {
		return nil, fmt.Errorf("preparing the verifier: %w", err)
	}
	return &Verifier{root: r, material: material, sigstore: v}, nil
}

// Root is the trust root in use.
func (v *Verifier) Root() trust.Root { return v.root }

// Attestation verifies a bundle that carries a signed in-toto statement. What
// the statement says is not yet bound to anything: see [Evidence.Covers].
func (v *Verifier) Attestation(raw []byte) (Evidence, error) {
	b, err := parse(raw)
	if err != nil {
		return Evidence{}, err
	}
	payload, err := statementBytes(b)
	if err != nil {
		return Evidence{}, err
	}
	// Parsed is not believed: this only has what no two readers read alike
	// refused as that, whoever signed it.
	statement, err := intoto.Parse(payload)
	if err != nil {
		return Evidence{}, err
	}
	if statement.PredicateType() == kindBlob {
		return Evidence{}, verdict.Refuse(verdict.PredicateType, "bundle", "a statement says that it is a blob signature")
	}
	e, err := v.evidence(b, raw, sigstore.WithoutArtifactUnsafe()) // bound by name and digest in Covers
	if err != nil {
		return Evidence{}, err
	}
	e.statement = statement
	return e, nil
}

// Blob verifies a bundle that signs exactly these bytes.
func (v *Verifier) Blob(raw []byte, artifact digest.Set) (Evidence, error) {
	if artifact.SHA256.IsZero() {
		return Evidence{}, verdict.Refuse(verdict.NotBound, "bundle", "no artifact was given to bind it to")
	}
	b, err := parse(raw)
	if err != nil {
		return Evidence{}, err
	}
	message := b.GetMessageSignature()
	if message == nil {
		return Evidence{}, verdict.Refuse(verdict.MaterialKind, "bundle", "it carries an attestation, not a blob signature")
	}
	if claimed := fmt.Sprintf("%x", message.GetMessageDigest().GetDigest()); claimed != artifact.SHA256.Hex() {
		return Evidence{}, &verdict.Error{Finding: verdict.Find(verdict.NotBound, "bundle", "it signs other bytes").
			Differ(artifact.SHA256.String(), "sha256:"+claimed)}
	}
	e, err := v.evidence(b, raw, sigstore.WithArtifactDigest("sha256", artifact.SHA256.Bytes()))
	if err != nil {
		return Evidence{}, err
	}
	e.artifact = artifact
	return e, nil
}

// evidence asks sigstore-go for everything that does not depend on what is
// asked: log inclusion, timestamp, certificate chain, SCT, signature.
func (v *Verifier) evidence(b *bundle.Bundle, raw []byte, artifact sigstore.ArtifactPolicyOption) (Evidence, error) {
	// The identity is judged by policy from the evidence, so none is asked here.
	result, err := v.sigstore.Verify(b, sigstore.NewPolicy(artifact, sigstore.WithoutIdentitiesUnsafe()))
	if err != nil {
		return Evidence{}, verdict.Wrap(verdict.SignatureBad, "bundle", err)
	}
	who, err := signer(b)
	if err != nil {
		return Evidence{}, err
	}
	at, err := provenTime(result.VerifiedTimestamps)
	if err != nil {
		return Evidence{}, err
	}
	entries, err := b.TlogEntries()
	if err != nil || len(entries) != 1 {
		return Evidence{}, verdict.Refuse(verdict.SignatureBad, "bundle", "want exactly one log entry, got %d", len(entries))
	}
	return Evidence{
		identity: who, bundle: digest.Of(digest.SHA256, raw), signedAt: at, logIndex: entries[0].LogIndex(),
	}, nil
}

func parse(raw []byte) (*bundle.Bundle, error) {
	if len(raw) > MaxBundle {
		return nil, verdict.Refuse(verdict.Limit, "bundle", "%d bytes, the limit is %d", len(raw), MaxBundle)
	}
	b := &bundle.Bundle{}
	err := b.UnmarshalJSON(raw)
	switch {
	case errors.Is(err, bundle.ErrUnsupportedMediaType):
		return nil, verdict.Wrap(verdict.BundleVersion, "bundle", err)
	case err != nil:
		return nil, verdict.Wrap(verdict.BundleParse, "bundle", err)
	case !b.MinVersion(minBundle):
		return nil, verdict.Refuse(verdict.BundleVersion, "bundle", "media type %q, want %s or later", b.GetMediaType(), minBundle)
	case b.GetVerificationMaterial().GetPublicKey() != nil:
		return nil, verdict.Refuse(verdict.MaterialKind, "bundle", "it was signed with a key, not with an identity")
	}
	return b, nil
}

// statementBytes returns the signed payload of an in-toto attestation.
func statementBytes(b *bundle.Bundle) ([]byte, error) {
	envelope := b.GetDsseEnvelope()
	if envelope == nil {
		return nil, verdict.Refuse(verdict.MaterialKind, "bundle", "it carries a blob signature, not an attestation")
	}
	if n := len(envelope.GetSignatures()); n != 1 {
		return nil, verdict.Refuse(verdict.SignatureBad, "bundle", "want exactly one signature, got %d", n)
	}
	if envelope.GetPayloadType() != intoto.PayloadType {
		return nil, verdict.Refuse(verdict.MaterialKind, "bundle", "payload type %q is not a statement", envelope.GetPayloadType())
	}
	envelope.Signatures[0].Keyid = "" // DSSE: nobody signs the hint, so nothing may depend on it
	return envelope.GetPayload(), nil
}

// provenTime is the latest time that a timestamp authority vouches for.
func provenTime(stamps []sigstore.TimestampVerificationResult) (time.Time, error) {
	var latest time.Time
	for _, s := range stamps {
		if strings.HasPrefix(s.Type, "Timestamp") && s.Timestamp.After(latest) {
			latest = s.Timestamp
		}
	}
	if latest.IsZero() {
		return time.Time{}, verdict.Wrap(verdict.SignatureBad, "bundle", errors.New("no signed timestamp"))
	}
	return latest.UTC(), nil
}
