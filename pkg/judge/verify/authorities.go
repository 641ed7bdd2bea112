package verify

import (
	"crypto/x509"

	sigstore "github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/waybill-release/waybill/pkg/tool/slice"
)

// Chain is the chain of CA certificates of a certificate, from the trust root
// and without the certificate itself; nil if the root has none. Older clients
// expect it beside a signature.
func (v *Verifier) Chain(certificate []byte) (chain [][]byte) {
	leaf, err := x509.ParseCertificate(certificate)
	if err != nil {
		return nil
	}
	chains, err := sigstore.VerifyLeafCertificate(leaf.NotBefore, leaf, v.material)
	if err != nil || len(chains) == 0 {
		return nil
	}
	return slice.Map(chains[0][1:], func(c *x509.Certificate) []byte { return c.Raw })
}
