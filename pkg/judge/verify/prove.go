package verify

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// prove verifies a bundle clause by clause, in the order of the Sigstore client
// specification. Each step returns what it proved, and the next uses only that;
// calling a step alone proves nothing.
func prove(m material, trusted root.TrustedMaterial, rules Rules, seen *memory) (Evidence, error) {
	if err := m.readSignature(); err != nil {
		return Evidence{}, err
	}
	// "The Verifier MUST verify the inclusion proof or promise" of entries for
	// this very signature.
	logged, err := recorded(&m, trusted, rules.Logs, seen)
	if err != nil {
		return Evidence{}, err
	}
	// "First, establish a time for the signature."
	at, err := observed(m, trusted, logged, rules.Times, seen)
	if err != nil {
		return Evidence{}, err
	}
	if err := logged.believed(latest(at)); err != nil {
		return Evidence{}, err
	}
	e := Evidence{bundle: digest.Of(digest.SHA256, m.raw), signedAt: latest(at), logIndex: logged.index, log: logged.name()}
	if m.leaf != nil {
		// "… certification path validation … with the pre-distributed Fulcio
		// root certificate(s)", at every proven time.
		found, err := chained(m.leaf, trusted, at, seen)
		if err != nil {
			return Evidence{}, err
		}
		// "The Verifier MUST extract the SignedCertificateTimestamp embedded
		// in the leaf certificate, and verify it."
		if err := published(found, trusted, rules.SCTs, seen); err != nil {
			return Evidence{}, err
		}
		if err := m.readName(); err != nil {
			return Evidence{}, err
		}
		e.leaf, e.identity, e.claims = m.named.digest, m.named.identity, m.named.claims
	}
	// "The Verifier MUST verify the provided signature … against the key in
	// the leaf of the certificate chain", or the key that was given.
	if err := signed(m, trusted); err != nil {
		return Evidence{}, err
	}
	if m.leaf != nil {
		seen.leaves.keep(m.leaf.Raw, m.named)
	}
	return e, nil
}

// readName reads the identity in the certificate, unless it is known.
func (m *material) readName() error {
	if m.named != nil {
		return nil
	}
	who, claims, err := identityOf(m.leaf)
	if err != nil {
		return err
	}
	m.named = &named{content: m.content, digest: digest.Of(digest.SHA256, m.leaf.Raw), identity: who, claims: claims}
	return nil
}

// observed proves the times of the signature: by timestamp authorities, and by
// logs that sign the time of an entry. Unsigned times do not count. Every time
// is used for the following steps; for the threshold, an authority counts once.
func observed(m material, trusted root.TrustedMaterial, l logged, threshold int, seen *memory) ([]time.Time, error) {
	stamps, err := timestamps(m, trusted, seen)
	if err != nil {
		return nil, err
	}
	times, by := append([]time.Time(nil), l.times...), map[string]bool{}
	for _, s := range stamps {
		times, by[s.URI] = append(times, s.Time), true
	}
	if have := len(l.times) + len(by); have < threshold {
		return nil, untimed(m, have, threshold)
	}
	return times, nil
}

// timestamps verifies every timestamp in the bundle: a valid one does not
// excuse an invalid one, in any order.
func timestamps(m material, trusted root.TrustedMaterial, seen *memory) ([]*root.Timestamp, error) {
	tokens, err := m.entity.Timestamps()
	if err != nil {
		return nil, verdict.Wrap(verdict.TimeInvalid, "timestamp", err)
	}
	proven := make([]*root.Timestamp, 0, len(tokens))
	for _, token := range tokens {
		stamp, err := stampedBy(seen.stamping, token, m.signature)
		if err != nil {
			return nil, whyStamp(token, m.signature, trusted, err)
		}
		proven = append(proven, stamp)
	}
	return proven, nil
}

// stampedBy finds the authority that made a timestamp of a signature.
func stampedBy(authorities []root.TimestampingAuthority, token, signature []byte) (*root.Timestamp, error) {
	var all []error
	for _, authority := range authorities {
		stamp, err := authority.Verify(token, signature)
		if err == nil {
			return stamp, nil
		}
		all = append(all, err)
	}
	return nil, fmt.Errorf("the timestamp is not from an authority of the trust root: %w", errors.Join(all...))
}

// signed verifies the signature itself, over the bytes as they were received.
func signed(m material, trusted root.TrustedMaterial) error {
	var err error
	if m.message != nil {
		message := m.message.MessageSignatureContent()
		err = sigstore.VerifySignatureWithArtifactDigests(m.message, m.content, trusted,
			[]sigstore.ArtifactDigest{{Algorithm: message.DigestAlgorithm(), Digest: message.Digest()}})
	} else {
		err = sealed(m, trusted)
	}
	if err != nil {
		return verdict.Wrap(verdict.SignatureBad, "bundle", err)
	}
	return nil
}

// sealed verifies the one signature of an envelope over DSSE's encoding, which
// is generated while it is read.
func sealed(m material, trusted root.TrustedMaterial) (err error) {
	var key signature.Verifier
	if m.leaf != nil {
		key, err = signature.LoadDefaultVerifier(m.leaf.PublicKey)
	} else {
		key, err = trusted.PublicKeyVerifier(m.content.PublicKey().Hint())
	}
	if err != nil {
		return err
	}
	return key.VerifySignature(bytes.NewReader(m.signature), pae(m.entity.GetDsseEnvelope()))
}

func latest(times []time.Time) time.Time {
	var last time.Time
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last.UTC()
}
