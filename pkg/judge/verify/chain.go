package verify

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// chained proves that a trusted authority issued the certificate, and that
// every certificate of the chain was valid at all proven times, not only at
// one.
func chained(leaf *x509.Certificate, trusted root.TrustedMaterial, at []time.Time, seen *memory) (issued, error) {
	found, ok := seen.chains.find(leaf.Raw)
	for _, t := range at {
		if ok && found.holds(t) {
			continue
		}
		var err error
		if found, err = issue(leaf, trusted, t, seen); err != nil {
			return issued{}, disagreeing(leaf, at, err)
		}
		ok = true
	}
	return found, nil
}

// span is a closed time interval.
type span struct{ from, until time.Time }

func (s span) holds(t time.Time) bool { return !t.Before(s.from) && !t.After(s.until) }

// within intersects a span with another; a zero end means no end.
func (s span) within(from, until time.Time) span {
	if from.After(s.from) {
		s.from = from
	}
	if !until.IsZero() && until.Before(s.until) {
		s.until = until
	}
	return s
}

// lifetime is the time in which all certificates are valid.
func lifetime(certificates ...*x509.Certificate) span {
	s := span{certificates[0].NotBefore, certificates[0].NotAfter}
	for _, c := range certificates {
		s = s.within(c.NotBefore, c.NotAfter)
	}
	return s
}

// issued is a proven chain, and the time in which every certificate of it and
// the trust root's own window are valid.
type issued struct {
	span
	chains [][]*x509.Certificate
	// seen says that enough certificate logs promised to log it, as issued in
	// these chains.
	seen bool
}

func issue(leaf *x509.Certificate, trusted root.TrustedMaterial, t time.Time, seen *memory) (issued, error) {
	for i, authority := range trusted.FulcioCertificateAuthorities() {
		place := []byte{byte(i), byte(i >> 8)}
		if found, ok := seen.below(place, leaf, t); ok {
			return found, nil
		}
		chains, err := authority.Verify(leaf, t)
		if err != nil {
			continue
		}
		found := issued{span: lifetime(slices.Concat(chains...)...), chains: chains}
		if ca, ok := authority.(*root.FulcioCertificateAuthority); ok {
			found.span = found.within(ca.ValidityPeriodStart, ca.ValidityPeriodEnd)
			seen.keepAnchor(place, found, ca)
		}
		return found, nil
	}
	return issued{}, whyNotIssued(leaf, trusted, t)
}

func outOfLife(leaf *x509.Certificate, t time.Time) error {
	return verdict.Refuse(verdict.TimeCert, "certificate", "signed at %s, but the certificate is valid from %s to %s",
		t.UTC().Format(time.RFC3339), leaf.NotBefore.UTC().Format(time.RFC3339), leaf.NotAfter.UTC().Format(time.RFC3339))
}

// published proves that enough distinct certificate logs promised to log the
// certificate, and remembers a certificate for which everything is proven.
func published(found issued, trusted root.TrustedMaterial, threshold int, seen *memory) error {
	if found.seen {
		return nil
	}
	if threshold > 0 && (seen.alone || promises(found.chains, trusted.CTLogs()) < threshold) {
		if err := sigstore.VerifySignedCertificateTimestamp(found.chains, threshold, trusted); err != nil {
			return whyUnseen(found.chains, trusted, threshold, err)
		}
	}
	found.seen = true
	seen.chains.keep(found.chains[0][0].Raw, found)
	return nil
}

// checkProfile refuses certificates that cannot be those of a signer, before
// any of their signatures is computed.
func checkProfile(leaf *x509.Certificate) error {
	if err := checkAlgorithm(leaf.RawSubjectPublicKeyInfo); err != nil {
		return err
	}
	if err := CheckKey(leaf.PublicKey); err != nil {
		return err
	}
	switch {
	case leaf.IsCA:
		return verdict.Refuse(verdict.CertProfile, "certificate", "the certificate is that of an authority, not of a signer")
	case !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageCodeSigning) || slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny):
		return verdict.Refuse(verdict.CertProfile, "certificate", "the certificate was not issued for code signing")
	}
	return nil
}

// ParseKey parses the public key of a signer without a certificate: one PEM
// block of type PUBLIC KEY.
func ParseKey(raw []byte) (crypto.PublicKey, error) {
	block, rest := pem.Decode(raw)
	if block == nil || block.Type != "PUBLIC KEY" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, verdict.Refuse(verdict.Usage, "public key", "want one PEM block of type PUBLIC KEY")
	}
	if err := checkAlgorithm(block.Bytes); err != nil {
		return nil, err
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, verdict.Wrap(verdict.Usage, "public key", err)
	}
	return public, CheckKey(public)
}

// checkAlgorithm refuses keys of ML-DSA by name, from the start of their DER.
func checkAlgorithm(der []byte) error {
	for i, name := range []string{"ML-DSA-44", "ML-DSA-65", "ML-DSA-87"} {
		if id := append([]byte("\x60\x86\x48\x01\x65\x03\x04\x03"), 17+byte(i)); bytes.Contains(der[:min(len(der), 32)], id) {
			return verdict.Refuse(verdict.CertLimit, "public key", "%s keys are not accepted yet; ECDSA, Ed25519 and RSA keys are", name)
		}
	}
	return nil
}

// CheckKey accepts the kinds and sizes of keys that signers use.
func CheckKey(public crypto.PublicKey) error {
	switch k := public.(type) {
	case *ecdsa.PublicKey:
		if bits := k.Curve.Params().BitSize; bits < 256 || bits > 521 {
			return verdict.Refuse(verdict.CertLimit, "public key", "ECDSA keys of %d bits are not accepted", bits)
		}
	case ed25519.PublicKey:
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < 2048 || bits > 8192 {
			return verdict.Refuse(verdict.CertLimit, "public key", "RSA keys of %d bits are not accepted", bits)
		}
	default:
		return verdict.Refuse(verdict.CertLimit, "public key", "keys of type %T are not accepted", public)
	}
	return nil
}
