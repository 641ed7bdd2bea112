package verify

import (
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// prove verifies a bundle clause by clause, in the order of the Sigstore
// client specification. Each step returns what it proved, and the next builds
// on that alone; nothing is believed because a step was called.
func prove(m material, trusted root.TrustedMaterial, rules Rules, seen *memory) (Evidence, error) {
	var err error
	if m.signature, err = m.entity.SignatureContent(); err != nil {
		return Evidence{}, verdict.Wrap(verdict.BundleParse, "bundle", err)
	}
	// "The Verifier MUST verify the inclusion proof or promise" of entries
	// that are of this very signature.
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
		e.leaf = digest.Of(digest.SHA256, m.leaf.Raw)
		// "… certification path validation … with the pre-distributed Fulcio
		// root certificate(s)", at every time that was established.
		found, err := chained(m.leaf, trusted, at, seen)
		if err != nil {
			return Evidence{}, err
		}
		// "The Verifier MUST extract the SignedCertificateTimestamp embedded
		// in the leaf certificate, and verify it."
		if err := published(found, trusted, rules.SCTs, seen); err != nil {
			return Evidence{}, err
		}
		if e.identity, e.claims, err = identityOf(m.leaf); err != nil {
			return Evidence{}, err
		}
	}
	// "The Verifier MUST verify the provided signature … against the key in
	// the leaf of the certificate chain", or the key that was given.
	if err := signed(m, trusted); err != nil {
		return Evidence{}, err
	}
	return e, nil
}

// observed establishes when: by timestamp authorities, and by logs that sign
// the time at which they took an entry in. An unsigned time is no time.
func observed(m material, trusted root.TrustedMaterial, l logged, threshold int, seen *memory) ([]time.Time, error) {
	stamps, bad, err := sigstore.VerifySignedTimestamp(readOnce{m.entity, m.signature}, remembering{trusted, seen.stamping})
	if err != nil {
		return nil, verdict.Wrap(verdict.TimeInvalid, "timestamp", err)
	}
	times := append([]time.Time(nil), l.times...)
	for _, s := range stamps {
		times = append(times, s.Time)
	}
	if len(times) >= threshold {
		return times, nil
	}
	return nil, untimed(m, trusted, len(times), threshold, bad)
}

// signed checks the signature itself, over the bytes as they were received.
func signed(m material, trusted root.TrustedMaterial) error {
	var err error
	if message := m.signature.MessageSignatureContent(); message != nil {
		err = sigstore.VerifySignatureWithArtifactDigests(m.signature, m.content, trusted,
			[]sigstore.ArtifactDigest{{Algorithm: message.DigestAlgorithm(), Digest: message.Digest()}})
	} else {
		err = sigstore.VerifySignature(m.signature, m.content, trusted)
	}
	if err != nil {
		return verdict.Wrap(verdict.SignatureBad, "bundle", err)
	}
	return nil
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
