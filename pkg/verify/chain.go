package verify

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"slices"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/waybill-release/waybill/pkg/verdict"
)

// chained proves that a trusted authority issued the certificate, with every
// certificate of the chain valid at every time that was established: all of
// them, not any.
func chained(leaf *x509.Certificate, trusted root.TrustedMaterial, at []time.Time, seen *memory) ([][]*x509.Certificate, error) {
	var chains [][]*x509.Certificate
	for _, t := range at {
		found, ok := seen.chain(leaf, t)
		if !ok {
			var err error
			if found, err = issue(leaf, trusted, t); err != nil {
				return nil, disagreeing(leaf, at, err)
			}
			seen.keepChain(leaf, found)
		}
		chains = found.chains
	}
	return chains, nil
}

// issued is a proven chain and the time within which every certificate of it,
// and the trust root's own window, holds.
type issued struct {
	chains      [][]*x509.Certificate
	from, until time.Time
}

func issue(leaf *x509.Certificate, trusted root.TrustedMaterial, t time.Time) (issued, error) {
	for _, authority := range trusted.FulcioCertificateAuthorities() {
		chains, err := authority.Verify(leaf, t)
		if err != nil {
			continue
		}
		from, until := window(chains)
		if ca, ok := authority.(*root.FulcioCertificateAuthority); ok {
			from, until = narrow(from, until, ca.ValidityPeriodStart, ca.ValidityPeriodEnd)
		}
		return issued{chains: chains, from: from, until: until}, nil
	}
	return issued{}, whyNotIssued(leaf, trusted, t)
}

func outOfLife(leaf *x509.Certificate, t time.Time) error {
	return verdict.Refuse(verdict.TimeCert, "certificate", "signed at %s, outside the certificate's life of %s to %s",
		t.UTC().Format(time.RFC3339), leaf.NotBefore.UTC().Format(time.RFC3339), leaf.NotAfter.UTC().Format(time.RFC3339))
}

// window is the time within which the first chain's certificates are all
// valid. Only the first is used, so that what is kept is what was proven.
func window(chains [][]*x509.Certificate) (from, until time.Time) {
	for i, c := range chains[0] {
		if i == 0 {
			from, until = c.NotBefore, c.NotAfter
		}
		from, until = narrow(from, until, c.NotBefore, c.NotAfter)
	}
	return from, until
}

func narrow(from, until, start, end time.Time) (time.Time, time.Time) {
	if start.After(from) {
		from = start
	}
	if !end.IsZero() && end.Before(until) {
		until = end
	}
	return from, until
}

// published proves that distinct certificate logs have seen the certificate.
func published(leaf *x509.Certificate, chains [][]*x509.Certificate, trusted root.TrustedMaterial, threshold int, seen *memory) error {
	if seen.published(leaf, chains) {
		return nil
	}
	if err := sigstore.VerifySignedCertificateTimestamp(chains, threshold, trusted); err != nil {
		return whyUnseen(chains, trusted, threshold, err)
	}
	seen.keepPublished(leaf, chains)
	return nil
}

// checkProfile refuses certificates that no signer has, before any signature
// of them is computed.
func checkProfile(leaf *x509.Certificate) error {
	if err := checkKey(leaf.PublicKey); err != nil {
		return err
	}
	switch {
	case leaf.IsCA:
		return verdict.Refuse(verdict.CertProfile, "certificate", "it is an authority's own, not a signer's")
	case !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageCodeSigning) || slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny):
		return verdict.Refuse(verdict.CertProfile, "certificate", "it was not issued for code signing")
	}
	return nil
}

// checkKey allows the kinds and sizes of keys that signers use.
func checkKey(public crypto.PublicKey) error {
	switch k := public.(type) {
	case *ecdsa.PublicKey:
		if bits := k.Curve.Params().BitSize; bits < 256 || bits > 521 {
			return verdict.Refuse(verdict.CertLimit, "public key", "an ECDSA key of %d bits", bits)
		}
	case ed25519.PublicKey:
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < 2048 || bits > 8192 {
			return verdict.Refuse(verdict.CertLimit, "public key", "an RSA key of %d bits", bits)
		}
	default:
		return verdict.Refuse(verdict.CertLimit, "public key", "a key of type %T", public)
	}
	return nil
}

func digestText(b []byte) string { return "digest " + hex.EncodeToString(b) }
