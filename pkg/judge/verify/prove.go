package verify

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
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
	for _, e := range m.entity.GetVerificationMaterial().GetTlogEntries() {
		if err := rules.cosigned([]byte(e.GetInclusionProof().GetCheckpoint().GetEnvelope())); err != nil {
			return Evidence{}, err
		}
	}
	// "First, establish a time for the signature."
	at, unknown, err := observed(m, trusted, logged, rules.Times, seen)
	if err != nil {
		return Evidence{}, err
	}
	if err := logged.believed(latest(at)); err != nil {
		return Evidence{}, err
	}
	e := Evidence{bundle: digest.Of(digest.SHA256, m.raw), signedAt: latest(at), logIndex: logged.index, log: logged.name(), unknown: unknown}
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
		if err := m.readName(rules.SCTs == 0); err != nil {
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
func (m *material) readName(logless bool) error {
	if m.named != nil {
		return nil
	}
	who, claims, err := identityOf(m.leaf, logless)
	if err != nil {
		return err
	}
	m.named = &named{content: m.content, digest: digest.Of(digest.SHA256, m.leaf.Raw), identity: who, claims: claims}
	return nil
}

// observed proves the times of the signature: by timestamp authorities, and by
// logs that sign the time of an entry. Unsigned times do not count. Every time
// is used for the following steps; for the threshold, an authority counts once.
// unknown is the number of timestamps of authorities that the trust root does
// not name: they are ignored, unless too few other times are left.
func observed(m material, trusted root.TrustedMaterial, l logged, threshold int, seen *memory) (times []time.Time, unknown int, err error) {
	tokens, err := m.entity.Timestamps()
	if err != nil {
		return nil, 0, verdict.Wrap(verdict.TimeInvalid, "timestamp", err)
	}
	times, by := append([]time.Time(nil), l.times...), map[string]bool{}
	var ignored error
	for _, token := range tokens {
		stamp, err := stampedBy(seen.stamping, token, m.signature)
		switch err = whyStamp(token, m.signature, trusted, err); {
		case err == nil:
			times, by[stamp.URI] = append(times, stamp.Time), true
		case verdict.FindingOf("", err).Code == verdict.TSAUntrusted:
			ignored, unknown = err, unknown+1
		default: // a valid timestamp does not excuse an invalid one of a known authority
			return nil, 0, err
		}
	}
	switch have := len(l.times) + len(by); {
	case have >= threshold:
		return times, unknown, nil
	case ignored != nil:
		return nil, 0, ignored
	default:
		return nil, 0, untimed(m, have, threshold)
	}
}

// stampedBy finds the authority that made a timestamp of a signature.
func stampedBy(authorities []root.TimestampingAuthority, token, signature []byte) (*root.Timestamp, error) {
	why := errors.New("the timestamp is not from an authority of the trust root")
	for i, authority := range authorities {
		stamp, err := authority.Verify(token, signature)
		if err == nil {
			return stamp, nil
		}
		why = fmt.Errorf("%w%s%w", why, map[bool]string{true: ": ", false: "; "}[i == 0], err)
	}
	return nil, why
}

// signed verifies the signature itself, over the bytes as they were received.
func signed(m material, trusted root.TrustedMaterial) error {
	var err error
	if m.message == nil {
		err = sealed(m, trusted)
	} else {
		message := m.message.MessageSignatureContent()
		err = sigstore.VerifySignatureWithArtifactDigests(m.message, m.content, trusted,
			[]sigstore.ArtifactDigest{{Algorithm: message.DigestAlgorithm(), Digest: message.Digest()}})
	}
	switch {
	case err == nil || m.signedByOlderClient():
		return nil
	case m.message != nil && m.leaf != nil:
		said := m.entity.GetMessageSignature().GetMessageDigest()
		if by, e := signature.GetDefaultAlgorithmDetails(m.leaf.PublicKey); e == nil && by.GetHashType() != 0 && by.GetHashType().Size() != len(said.GetDigest()) {
			return verdict.Refuse(verdict.DigestHint, "bundle", "the certificate's key signs %s digests, and the digest beside the signature is %s: it is not the one that was signed",
				by.GetHashType(), said.GetAlgorithm())
		}
	}
	return verdict.Wrap(verdict.SignatureBad, "bundle", err)
}

// signedByOlderClient reports whether a key of P-384 or P-521 signed a SHA-256
// digest, as some clients did before each curve had a digest of its length.
// sigstore-go accepts the same.
func (m material) signedByOlderClient() bool {
	if m.leaf == nil {
		return false
	}
	key, is := m.leaf.PublicKey.(*ecdsa.PublicKey)
	sum, signature, _ := m.signedSHA256()
	return is && (key.Curve == elliptic.P384() || key.Curve == elliptic.P521()) && sum != nil && ecdsa.VerifyASN1(key, sum, signature)
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
