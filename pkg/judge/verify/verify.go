package verify

import (
	"bytes"
	"crypto"

	"github.com/sigstore/sigstore-go/pkg/root"
	"golang.org/x/mod/sumdb/note"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Rules say how much must be proven. Each threshold is a number of distinct
// parties, at least one: a party that appears twice counts once. A trust root
// without logs has its own thresholds: see [trust.Root.IsLogless].
type Rules struct {
	// Logs is how many transparency logs must include the signature.
	Logs int
	// Times is how many timestamp authorities, or logs that sign the time of an
	// entry, must prove the time.
	Times int
	// SCTs is how many certificate logs must have promised to log the
	// certificate. It does not apply to signatures by a key.
	SCTs int
	// Stated says that somebody wrote down how many logs must include a signature or
	// a certificate, be it 1: a trust root without logs cannot meet that.
	Stated bool
	// Keys may sign in place of an identity. A signature without a certificate,
	// by none of these keys, is refused.
	Keys []crypto.PublicKey
	// Cosigned is how many of the Witnesses, at least, must have cosigned the checkpoint
	// that proves a log entry. The keys are as in C2SP signed-note.
	Cosigned  int
	Witnesses []string
	witnesses note.Verifiers
	// LibraryAlone leaves every log entry and every promise of a certificate
	// log to sigstore-go, without the shortcuts of this package. Tests check
	// that the results are the same; it takes up to twice the time.
	LibraryAlone bool
}

// Default requires one of each. In a trust domain without logs it requires a
// timestamp.
func Default() Rules { return Rules{Logs: 1, Times: 1, SCTs: 1} }

// Verifier verifies signatures against one trust root. It is safe for
// concurrent use, and caches proofs that several bundles share.
type Verifier struct {
	root     trust.Root
	material root.TrustedMaterial
	rules    Rules
	seen     *memory
	keys     []keyMaterial
}

// New prepares a verifier with the [Default] rules, once for many bundles.
func New(r trust.Root) (*Verifier, error) { return NewWith(r, Default()) }

// NewWith prepares a verifier with other rules.
func NewWith(r trust.Root, rules Rules) (*Verifier, error) {
	if r.IsZero() {
		return nil, verdict.Refuse(verdict.TrustRootParse, "trust root", "no trust root was given")
	}
	if min(rules.Logs, rules.Times, rules.SCTs) < 1 || r.IsLogless() && (rules.Stated || max(rules.Logs, rules.SCTs, rules.Cosigned+1) > 1) {
		return nil, verdict.Refuse(verdict.Usage, "rules", "each threshold must be at least 1, and logs need a trust root that has some, got %+v", rules)
	}
	if err := rules.CheckWitnesses(); err != nil {
		return nil, err
	}
	if r.IsLogless() {
		rules.Logs, rules.SCTs = 0, 0
	}
	material, err := root.NewTrustedRootFromJSON(r.Raw())
	if err != nil {
		return nil, verdict.Wrap(verdict.TrustRootParse, "trust root", err)
	}
	v := &Verifier{root: r, material: material, rules: rules, seen: newMemory(material)}
	v.seen.alone = rules.LibraryAlone
	for _, public := range rules.Keys {
		key, err := newKeyMaterial(material, public)
		if err != nil {
			return nil, err
		}
		v.keys = append(v.keys, key)
	}
	return v, nil
}

// Root is the trust root in use.
func (v *Verifier) Root() trust.Root { return v.root }

// Attestation verifies a bundle with a signed in-toto statement. The statement
// is not yet bound to any artifact: see [Evidence.Covers]. It is parsed
// leniently, because other programs may have written it; parse its bytes again,
// strictly, to read one of our formats.
func (v *Verifier) Attestation(raw []byte) (Evidence, error) {
	return v.attestation(raw, current(v.keyless))
}

// Layer verifies an attestation from a legacy tag, in the form of a bundle. Its
// log entry may be of kind intoto 0.0.1.
func (v *Verifier) Layer(raw []byte) (Evidence, error) { return v.attestation(raw, v.keyless) }

// Blob verifies a bundle that signs exactly these bytes.
func (v *Verifier) Blob(raw []byte, artifact digest.Set) (Evidence, error) {
	return v.blob(raw, artifact, nil, v.keyless)
}

// BlobSHA384 is [Verifier.Blob] where the SHA-384 digest of the same bytes is known
// too, which keys of P-384 sign.
func (v *Verifier) BlobSHA384(raw []byte, artifact digest.Set, sum []byte) (Evidence, error) {
	return v.blob(raw, artifact, sum, v.keyless)
}

// keyless proves a bundle that must have been signed with a certificate.
func (v *Verifier) keyless(m material) (Evidence, error) {
	switch {
	case m.leaf != nil:
	case len(v.keys) == 0:
		return Evidence{}, verdict.Refuse(verdict.MaterialKind, "bundle", "signed with a key, want a certificate with an identity")
	default:
		return v.known(m)
	}
	return prove(m, v.material, v.rules, v.seen)
}

// known proves a bundle that one of the known keys must have signed. The
// signature shows which one: the hint in the bundle is unsigned.
func (v *Verifier) known(m material) (Evidence, error) {
	if err := m.readSignature(); err != nil {
		return Evidence{}, err
	}
	for _, key := range v.keys {
		if signed(m, key) != nil {
			continue
		}
		return provenBy(m, key, v.rules, v.seen)
	}
	return Evidence{}, verdict.Refuse("KEY_UNKNOWN", "bundle", "signed with a key that is not allowed; allowed keys: %d", len(v.keys))
}

func provenBy(m material, key keyMaterial, rules Rules, seen *memory) (Evidence, error) {
	e, err := prove(m, key, rules, seen)
	if err != nil {
		return Evidence{}, err
	}
	e.key = key.digest
	return e, nil
}

// KeyVerifier verifies signatures of one long-lived key. The bundle cannot
// choose between key and certificate: the caller does.
type KeyVerifier struct {
	*Verifier
	key keyMaterial
}

// Key returns a verifier of the signatures of one public key.
func (v *Verifier) Key(public crypto.PublicKey) (*KeyVerifier, error) {
	key, err := newKeyMaterial(v.material, public)
	if err != nil {
		return nil, err
	}
	return &KeyVerifier{Verifier: v, key: key}, nil
}

// Public is the key.
func (k *KeyVerifier) Public() crypto.PublicKey { return k.key.public }

// Digest identifies the key, as [Evidence.Key] does.
func (k *KeyVerifier) Digest() digest.Digest { return k.key.digest }

// Attestation verifies a statement that the key signed.
func (k *KeyVerifier) Attestation(raw []byte) (Evidence, error) {
	return k.attestation(raw, current(k.keyed))
}

// Layer verifies the key's attestation from a legacy tag: see [Verifier.Layer].
func (k *KeyVerifier) Layer(raw []byte) (Evidence, error) { return k.attestation(raw, k.keyed) }

// Blob verifies the key's signature over exactly these bytes.
func (k *KeyVerifier) Blob(raw []byte, artifact digest.Set) (Evidence, error) {
	return k.blob(raw, artifact, nil, k.keyed)
}

// BlobSHA384 does the same for the key: see [Verifier.BlobSHA384].
func (k *KeyVerifier) BlobSHA384(raw []byte, artifact digest.Set, sum []byte) (Evidence, error) {
	return k.blob(raw, artifact, sum, k.keyed)
}

// InsecureEnvelope verifies a statement that only the key proves, without log
// entry and time: what a leaked key signs in this way can remain unnoticed.
func (k *KeyVerifier) InsecureEnvelope(raw []byte) (Evidence, error) {
	return k.attestation(raw, func(m material) (Evidence, error) {
		vm := m.entity.GetVerificationMaterial()
		if m.leaf != nil || len(vm.GetTlogEntries())+len(vm.GetTimestampVerificationData().GetRfc3161Timestamps()) > 0 {
			return current(k.keyed)(m)
		}
		if err := m.readSignature(); err != nil {
			return Evidence{}, err
		}
		if err := signed(m, k.key); err != nil {
			if payload := bytes.NewReader(m.entity.GetDsseEnvelope().GetPayload()); k.key.verifier.VerifySignature(bytes.NewReader(m.signature), payload) == nil {
				err = verdict.Refuse(verdict.SignatureBad, "envelope", "the key signed the payload without its type, which is no envelope of DSSE").
					Advise("ask for a signature by a key that signs envelopes, such as provenanceSigner of Cloud Build")
			}
			return Evidence{}, err
		}
		return Evidence{bundle: digest.Of(digest.SHA256, raw), key: k.key.digest}, nil
	})
}

func (k *KeyVerifier) keyed(m material) (Evidence, error) {
	if m.leaf != nil {
		return Evidence{}, verdict.Refuse(verdict.MaterialKind, "bundle", "signed with a certificate, want the given key")
	}
	return provenBy(m, k.key, k.rules, k.seen)
}

// attestation parses the statement only after everything about its signature
// has been proven.
func (v *Verifier) attestation(raw []byte, prove func(material) (Evidence, error)) (Evidence, error) {
	m, err := parse(raw, v.seen)
	if err != nil {
		return Evidence{}, err
	}
	payload, err := m.statement()
	if err != nil {
		return Evidence{}, err
	}
	e, err := prove(m)
	if err != nil {
		return Evidence{}, err
	}
	if e.statement, err = intoto.Adopt(payload); err != nil {
		return Evidence{}, err
	}
	if kind := e.statement.PredicateType(); kind == kindBlob || kind == KindImage {
		return Evidence{}, verdict.Refuse(verdict.PredicateType, "bundle", "the predicate type %s is reserved for signatures that are not statements", kind)
	}
	return e, nil
}

func (v *Verifier) blob(raw []byte, artifact digest.Set, sha384 []byte, prove func(material) (Evidence, error)) (Evidence, error) {
	if artifact.IsZero() {
		return Evidence{}, verdict.Refuse(verdict.NoArtifact, "bundle", "no artifact was given to compare with the signature")
	}
	m, err := parse(raw, v.seen)
	if err != nil {
		return Evidence{}, err
	}
	if err := m.bind(artifact, sha384); err != nil {
		return Evidence{}, err
	}
	e, err := prove(m)
	if err != nil {
		return Evidence{}, err
	}
	e.artifact = artifact
	return e, nil
}

// keyMaterial is a trust root in which exactly one key may sign.
type keyMaterial struct {
	root.TrustedMaterial
	public   crypto.PublicKey
	verifier root.TimeConstrainedVerifier
	digest   digest.Digest
}

// PublicKeyVerifier returns the one key and ignores the hint in the bundle,
// which is unsigned.
func (k keyMaterial) PublicKeyVerifier(string) (root.TimeConstrainedVerifier, error) {
	return k.verifier, nil
}
