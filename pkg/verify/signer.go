package verify

import (
	"crypto/x509"

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

func identityOf(leaf *x509.Certificate) (identity.Identity, error) {
	summary, err := certificate.SummarizeCertificate(leaf)
	if err != nil {
		return identity.Identity{}, verdict.Wrap(verdict.SignatureBad, "certificate", err)
	}
	names := subjects(leaf)
	if len(names) != 1 {
		return identity.Identity{}, verdict.Refuse(verdict.SANCount, "certificate", "it names %d identities, want exactly one", len(names))
	}
	names[0].Issuer = summary.Issuer
	if err := names[0].Check(); err != nil {
		return identity.Identity{}, verdict.Wrap(verdict.SANType, "certificate", err)
	}
	return names[0], nil
}

func subjects(leaf *x509.Certificate) []identity.Identity {
	var names []identity.Identity
	for _, m := range leaf.EmailAddresses {
		names = append(names, identity.Identity{Subject: m, Type: identity.Email})
	}
	for _, u := range leaf.URIs {
		names = append(names, identity.Identity{Subject: u.String(), Type: identity.URI})
	}
	for range len(leaf.DNSNames) + len(leaf.IPAddresses) {
		names = append(names, identity.Identity{Type: "other"})
	}
	return names
}
