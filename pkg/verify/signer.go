package verify

import (
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"slices"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"

	"github.com/waybill-release/waybill/pkg/identity"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// signer reads the one identity of a bundle's certificate. The library takes
// the first of several names and does not tell an e-mail address from a URI
// of the same text; both are refused here.
func signer(b *bundle.Bundle) (identity.Identity, error) {
	content, err := b.VerificationContent()
	if err != nil {
		return identity.Identity{}, verdict.Wrap(verdict.BundleParse, "bundle", err)
	}
	leaf := content.Certificate()
	if leaf == nil {
		return identity.Identity{}, verdict.Refuse(verdict.MaterialKind, "bundle", "it was signed with a key, not with an identity")
	}
	return identityOf(leaf)
}

// CertificateIdentity reads whom a certificate names. The certificate is
// parsed, not verified: a signer uses this to see what it was given before it
// signs with it.
func CertificateIdentity(der []byte) (identity.Identity, error) {
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return identity.Identity{}, verdict.Wrap(verdict.BundleParse, "certificate", err)
	}
	return identityOf(leaf)
}

// identityOf reads the one identity of a certificate that is for signing code
// and does not contradict itself.
func identityOf(leaf *x509.Certificate) (identity.Identity, error) {
	if leaf.IsCA || !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageCodeSigning) || slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny) {
		// The path check lets both pass: it asks whether the usage is forbidden.
		return identity.Identity{}, verdict.Refuse(verdict.SignatureBad, "certificate", "it is an authority's, or not for signing code")
	}
	issuer, err := issuerOf(leaf)
	if err != nil {
		return identity.Identity{}, verdict.Wrap(verdict.SignatureBad, "certificate", err)
	}
	if n := countNames(leaf); n != 1 {
		return identity.Identity{}, verdict.Refuse(verdict.SANCount, "certificate", "it names %d identities, want exactly one", n)
	}
	who := identity.Identity{Issuer: issuer}
	switch {
	case len(leaf.EmailAddresses) == 1:
		who.Subject, who.Type = leaf.EmailAddresses[0], identity.Email
	case len(leaf.URIs) == 1:
		who.Subject, who.Type = leaf.URIs[0].String(), identity.URI
	}
	if err := who.Check(); err != nil {
		return identity.Identity{}, verdict.Wrap(verdict.SANType, "certificate", err)
	}
	return who, nil
}

// issuerOf reads who vouched for the identity. A certificate can say it in two
// extensions, of which the library takes the last: both must say the same.
func issuerOf(leaf *x509.Certificate) (string, error) {
	summary, err := certificate.SummarizeCertificate(leaf)
	if err != nil {
		return "", err
	}
	for _, e := range leaf.Extensions {
		said := summary.Issuer
		switch {
		case e.Id.Equal(certificate.OIDIssuer): //nolint:staticcheck // deprecated, but still in every certificate
			said = string(e.Value)
		case e.Id.Equal(certificate.OIDIssuerV2):
			if err := certificate.ParseDERString(e.Value, &said); err != nil {
				return "", err
			}
		}
		if said != summary.Issuer {
			return "", fmt.Errorf("it names two issuers, %q and %q", said, summary.Issuer)
		}
	}
	return summary.Issuer, nil
}

// countNames counts the names of a certificate of every kind, those included
// that the standard library has no field for.
func countNames(leaf *x509.Certificate) int {
	var names []asn1.RawValue
	for _, e := range leaf.Extensions {
		if !e.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) {
			continue
		}
		if rest, err := asn1.Unmarshal(e.Value, &names); err != nil || len(rest) > 0 {
			return 0
		}
	}
	return len(names)
}
