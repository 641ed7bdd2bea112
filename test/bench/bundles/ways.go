package bundles

import (
	"fmt"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
)

// Way verifies all bundles of a set once, in order, and stops at the first
// that does not hold.
type Way func(list []Signed) error

// Ours is pkg/judge/verify: one verifier for one pass.
func Ours(raw []byte) (Way, error) {
	r, err := trust.Parse(raw)
	if err != nil {
		return nil, err
	}
	return func(list []Signed) error {
		v, err := verify.New(r)
		if err != nil {
			return err
		}
		for i, s := range list {
			if _, err := v.Blob(s.Raw, s.Digests); err != nil {
				return fmt.Errorf("bundle %d: %w", i, err)
			}
		}
		return nil
	}, nil
}

// Library is sigstore-go in a loop, asked the same: a certificate log, a
// transparency log, and a signed time of any kind.
func Library(raw []byte) (Way, error) {
	trusted, err := root.NewTrustedRootFromJSON(raw)
	if err != nil {
		return nil, err
	}
	v, err := sigstore.NewVerifier(trusted, sigstore.WithSignedCertificateTimestamps(1), sigstore.WithTransparencyLog(1), sigstore.WithObserverTimestamps(1))
	if err != nil {
		return nil, err
	}
	return func(list []Signed) error {
		for i, s := range list {
			var entity bundle.Bundle
			if err := entity.UnmarshalJSON(s.Raw); err != nil {
				return fmt.Errorf("bundle %d: %w", i, err)
			}
			policy := sigstore.NewPolicy(sigstore.WithArtifactDigest("sha256", s.Digests.SHA256.Bytes()), sigstore.WithoutIdentitiesUnsafe())
			if _, err := v.Verify(&entity, policy); err != nil {
				return fmt.Errorf("bundle %d: %w", i, err)
			}
		}
		return nil
	}, nil
}
