package verify

import (
	"crypto"

	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Rules say how much must be proven. Each is a number of distinct parties, at
// least one: a party that appears twice counts once.
type Rules struct {
	// Logs is how many transparency logs must include the signature.
	Logs int
	// Times is how many timestamp authorities, or logs that sign the time of
	// an entry, must say when.
	Times int
	// SCTs is how many certificate logs must have seen the certificate. It
	// does not apply where a key signs.
	SCTs int
	// Keys may sign in place of an identity, because the caller knows them.
	// What is signed without a certificate, by none of them, is refused.
	Keys []crypto.PublicKey
	// LibraryAlone leaves every log entry and every promise of a certificate log to
	// sigstore-go, without the shorter ways of this package. The answers are the
	// same, which tests hold against each other; it takes up to twice the time.
	LibraryAlone bool
}

// Default asks one of each.
func Default() Rules { return Rules{Logs: 1, Times: 1, SCTs: 1} }

// Verifier verifies keyless signatures against one trust root. It is safe for
// use by several goroutines, and cheaper the more bundles it sees.
type Verifier struct {
	root     trust.Root
	material root.TrustedMaterial
	rules    Rules
	seen     *memory
	keys     []keyMaterial
}

// New prepares a verifier with the [Default] rules, once for many bundles.
func New(r trust.Root) (*Verifier, error) { return NewWith(r, Default()) }

// NewWith prepares a verifier with rules of its own.
func NewWith(r trust.Root, rules Rules) (*Verifier, error) {
	if r.IsZero() {
		return nil, verdict.Refuse(verdict.TrustRootParse, "trust root", "no trust root was given")
	}
	if rules.Logs < 1 || rules.Times < 1 || rules.SCTs < 1 {
		return nil, verdict.Refuse(verdict.Usage, "rules", "each threshold must be at least 1, got %+v", rules)
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

// Attestation verifies a bundle that carries a signed in-toto statement. What
// the statement says is not yet bound to anything: see [Evidence.Covers]. It is
// read as others may write it; whoever reads a format of ours from it reads
// its bytes again, strictly.
func (v *Verifier) Attestation(raw []byte) (Evidence, error) {
	return v.attestation(raw, v.keyless)
}

// Blob verifies a bundle that signs exactly these bytes.
func (v *Verifier) Blob(raw []byte, artifact digest.Set) (Evidence, error) {
	return v.blob(raw, artifact, v.keyless)
}

// keyless proves a bundle that must have been signed with a certificate.
func (v *Verifier) keyless(m material) (Evidence, error) {
	switch {
	case m.leaf != nil:
	case len(v.keys) == 0:
		return Evidence{}, verdict.Refuse(verdict.MaterialKind, "bundle", "it was signed with a key, not with an identity")
	default:
		return v.known(m)
	}
	return prove(m, v.material, v.rules, v.seen)
}

// known proves a bundle that one of the known keys must have signed. Which one
// is found by its signature: what the bundle hints at nobody signed.
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
	return Evidence{}, verdict.Refuse(verdict.KeyUnknown, "bundle", "it was signed with a key, and with none of the %d that may sign", len(v.keys))
}

func provenBy(m material, key keyMaterial, rules Rules, seen *memory) (Evidence, error) {
	e, err := prove(m, key, rules, seen)
	if err != nil {
		return Evidence{}, err
	}
	e.key = key.digest
	return e, nil
}

// KeyVerifier verifies signatures of one long-lived key. There is no way from
// a bundle to the choice between key and certificate: the caller makes it.
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

// Digest names the key, as [Evidence.Key] does.
func (k *KeyVerifier) Digest() digest.Digest { return k.key.digest }

// Attestation verifies a statement that the key signed.
func (k *KeyVerifier) Attestation(raw []byte) (Evidence, error) { return k.attestation(raw, k.keyed) }

// Blob verifies the key's signature of exactly these bytes.
func (k *KeyVerifier) Blob(raw []byte, artifact digest.Set) (Evidence, error) {
	return k.blob(raw, artifact, k.keyed)
}

func (k *KeyVerifier) keyed(m material) (Evidence, error) {
	if m.leaf != nil {
		return Evidence{}, verdict.Refuse(verdict.MaterialKind, "bundle", "it was signed with a certificate, not with the key that was asked")
	}
	return provenBy(m, k.key, k.rules, k.seen)
}

// attestation reads the statement only after everything about its signature
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
		return Evidence{}, verdict.Refuse(verdict.PredicateType, "bundle", "a statement says that it is none, but a %s signature", kind)
	}
	return e, nil
}

func (v *Verifier) blob(raw []byte, artifact digest.Set, prove func(material) (Evidence, error)) (Evidence, error) {
	if artifact.IsZero() {
		return Evidence{}, verdict.Refuse(verdict.NoArtifact, "bundle", "no artifact was given to bind it to")
	}
	m, err := parse(raw, v.seen)
	if err != nil {
		return Evidence{}, err
	}
	if err := m.bind(artifact); err != nil {
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

// PublicKeyVerifier returns the one key, whatever the bundle hints at: a hint
// is an unauthenticated claim.
func (k keyMaterial) PublicKeyVerifier(string) (root.TimeConstrainedVerifier, error) {
	return k.verifier, nil
}
