package gate

import (
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/test/bench"
	"github.com/waybill-release/waybill/test/bench/bundles"
)

// evidence is a bundle with the SHA-256 that it is about.
type evidence struct{ raw, about []byte }

// floor verifies all bundles of the images of a set, one after another, and
// does nothing else: no registry, no policy, no service.
func floor(w io.Writer, req Request) error {
	s, err := setOf(req.Images)
	if err != nil {
		return err
	}
	images, err := s.read(req.Seed, req.N)
	if err != nil {
		return err
	}
	var all []evidence
	for i, at := range images[:req.N] {
		about, err := hex.DecodeString(strings.TrimPrefix(at.Digest, "sha256:"))
		if err != nil {
			return err
		}
		for k := range s.says {
			raw, err := os.ReadFile(bundlePath(req.Seed, s, i, k))
			if err != nil {
				return err
			}
			all = append(all, evidence{raw, about})
		}
	}
	trusted, err := os.ReadFile(filepath.Join(req.Seed, rootName))
	if err != nil {
		return err
	}
	way, err := floorOf(req.Way, s, trusted)
	if err != nil {
		return err
	}
	return bench.Measure(w, func() error { return way(all) })
}

func floorOf(way string, s Set, trusted []byte) (func([]evidence) error, error) {
	switch way {
	case Verify:
		return ours(trusted)
	case Library:
		return library(trusted)
	}
	check, err := bundles.Bare(s.cryptography())
	return func(all []evidence) error {
		list := make([]bundles.Signed, len(all))
		for i, e := range all {
			list[i].Raw = e.raw
		}
		return check(list)
	}, err
}

// ours is package verify alone.
func ours(trusted []byte) (func([]evidence) error, error) {
	r, err := trust.Parse(trusted)
	if err != nil {
		return nil, err
	}
	v, err := verify.New(r)
	return func(all []evidence) error {
		for i, e := range all {
			if _, err := v.Attestation(e.raw); err != nil {
				return fmt.Errorf("bundle %d: %w", i, err)
			}
		}
		return nil
	}, err
}

// library is sigstore-go, asked the same: a certificate log, a transparency
// log, and a signed time of any kind.
func library(trusted []byte) (func([]evidence) error, error) {
	r, err := root.NewTrustedRootFromJSON(trusted)
	if err != nil {
		return nil, err
	}
	v, err := sigstore.NewVerifier(r, sigstore.WithSignedCertificateTimestamps(1), sigstore.WithTransparencyLog(1), sigstore.WithObserverTimestamps(1))
	return func(all []evidence) error {
		for i, e := range all {
			var entity bundle.Bundle
			if err := entity.UnmarshalJSON(e.raw); err != nil {
				return fmt.Errorf("bundle %d: %w", i, err)
			}
			if _, err := v.Verify(&entity, sigstore.NewPolicy(sigstore.WithArtifactDigest("sha256", e.about), sigstore.WithoutIdentitiesUnsafe())); err != nil {
				return fmt.Errorf("bundle %d: %w", i, err)
			}
		}
		return nil
	}, err
}
