package verify

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"slices"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
)

// anchor is a CA certificate whose chain to the trust root was proven for some
// signer. For the next signer below it, only the signer's own certificate needs
// a signature check: one instead of two.
type anchor struct {
	span
	pool *x509.CertPool      // only the certificate
	up   []*x509.Certificate // the certificates above it, up to the root
}

// below proves a certificate below an anchor. If it returns false, the caller
// runs the full check.
func (m *memory) below(place []byte, leaf *x509.Certificate, t time.Time) (issued, bool) {
	a, ok := m.anchors.find(slices.Concat(place, leaf.RawIssuer))
	if !ok || !a.holds(t) {
		return issued{}, false
	}
	chains, err := leaf.Verify(x509.VerifyOptions{
		CurrentTime: t, Roots: a.pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	})
	if err != nil || len(chains) != 1 || len(chains[0]) != 2 {
		return issued{}, false
	}
	chain := slices.Concat(chains[0], a.up)
	return issued{span: lifetime(chain...).within(a.from, a.until), chains: [][]*x509.Certificate{chain}}, true
}

// keepAnchor remembers the issuer of a signer's certificate, unless something
// in it or above it depends on the issued certificate.
func (m *memory) keepAnchor(place []byte, found issued, ca *root.FulcioCertificateAuthority) {
	if len(found.chains) != 1 || len(found.chains[0]) < 3 {
		return // several chains, or no signature check would be saved
	}
	up := found.chains[0][1:]
	if slices.ContainsFunc(up, func(c *x509.Certificate) bool { return !isPlain(c) }) {
		return
	}
	pool := x509.NewCertPool()
	pool.AddCert(up[0])
	m.anchors.keep(slices.Concat(place, up[0].RawSubject), anchor{
		lifetime(up...).within(ca.ValidityPeriodStart, ca.ValidityPeriodEnd), pool, up[1:],
	})
}

// plain lists the extensions of a CA certificate that have the same effect for
// every signer below it: key identifiers, key usage, extended key usage, and
// the path length. Constraints on names and policies depend on the signer.
var plain = []asn1.ObjectIdentifier{{2, 5, 29, 14}, {2, 5, 29, 35}, {2, 5, 29, 15}, {2, 5, 29, 37}, {2, 5, 29, 19}}

func isPlain(c *x509.Certificate) bool {
	return !slices.ContainsFunc(c.Extensions, func(e pkix.Extension) bool { return !slices.ContainsFunc(plain, e.Id.Equal) })
}
