package verify

import (
	"crypto/x509"
	"encoding/asn1"

	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"

	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// CertificateIdentity reads the identity in a certificate. The certificate is
// parsed, not verified: a signer uses this to check what it was issued before
// it signs with it.
func CertificateIdentity(der []byte) (identity.Identity, error) {
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return identity.Identity{}, verdict.Wrap(verdict.CertParse, "certificate", err)
	}
	who, _, err := identityOf(leaf, false)
	return who, err
}

// CertificateClaims reads what a certificate states about the run that it was
// issued to. Like [CertificateIdentity] it verifies nothing.
func CertificateClaims(der []byte) (identity.Claims, error) {
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return identity.Claims{}, verdict.Wrap(verdict.CertParse, "certificate", err)
	}
	summary, err := certificate.SummarizeCertificate(leaf)
	if err != nil {
		return identity.Claims{}, verdict.Wrap(verdict.CertParse, "certificate", err)
	}
	return claimsOf(summary.Extensions), nil
}

// identityOf reads the only identity in a certificate, and what it states about
// the run that it was issued to. The library takes the first of several names,
// and does not distinguish an e-mail address from a URI with the same text;
// this function refuses both. Only in a domain without logs may the issuer be absent.
func identityOf(leaf *x509.Certificate, logless bool) (identity.Identity, identity.Claims, error) {
	none, noClaims := identity.Identity{}, identity.Claims{}
	summary, err := certificate.SummarizeCertificate(leaf)
	if err != nil {
		return none, noClaims, verdict.Wrap(verdict.CertParse, "certificate", err)
	}
	if err := oneName(leaf); err != nil {
		return none, noClaims, err
	}
	who := identity.Identity{Issuer: summary.Issuer}
	if who == who.WithoutIssuer() {
		return none, noClaims, verdict.Refuse(verdict.SANType, "certificate", "the certificate names the issuer %q, which is no address", who.Issuer)
	} else if logless && extension(leaf, oidIssuer) == nil && extension(leaf, oidIssuerV2) == nil {
		who = who.WithoutIssuer()
	}
	switch {
	case len(leaf.EmailAddresses) == 1:
		who.Subject, who.Type = leaf.EmailAddresses[0], identity.Email
	case len(leaf.URIs) == 1:
		who.Subject, who.Type = leaf.URIs[0].String(), identity.URI
	default:
		return none, noClaims, verdict.Refuse(verdict.SANType, "certificate", "the certificate names neither an e-mail address nor a URI")
	}
	if err := who.Check(); err != nil {
		return none, noClaims, verdict.Wrap(verdict.SANType, "certificate", err)
	}
	if err := oneIssuer(leaf); err != nil {
		return none, noClaims, err
	}
	return who, claimsOf(summary.Extensions), nil
}

// Extensions that this package parses itself, because the library does not
// expose what is needed.
var (
	oidSAN      = asn1.ObjectIdentifier{2, 5, 29, 17}
	oidIssuer   = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}
	oidIssuerV2 = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}
)

func extension(leaf *x509.Certificate, id asn1.ObjectIdentifier) []byte {
	for _, e := range leaf.Extensions {
		if e.Id.Equal(id) {
			return e.Value
		}
	}
	return nil
}

// oneName requires exactly one name of any kind, including kinds that Go does
// not parse.
func oneName(leaf *x509.Certificate) error {
	var names []asn1.RawValue
	rest, err := asn1.Unmarshal(extension(leaf, oidSAN), &names)
	if err != nil || len(rest) > 0 {
		return verdict.Refuse(verdict.SANCount, "certificate", "the certificate has no readable subject alternative name")
	}
	if len(names) != 1 {
		return verdict.Refuse(verdict.SANCount, "certificate", "the certificate names %d identities, want exactly one", len(names))
	}
	return nil
}

// oneIssuer requires that the two extensions with the issuer agree if both are
// present.
func oneIssuer(leaf *x509.Certificate) error {
	old, encoded := extension(leaf, oidIssuer), extension(leaf, oidIssuerV2)
	if old == nil || encoded == nil {
		return nil
	}
	var current string
	if rest, err := asn1.UnmarshalWithParams(encoded, &current, "utf8"); err != nil || len(rest) > 0 || current != string(old) {
		return verdict.Refuse(verdict.IssuerConflict, "certificate", "the certificate names two issuers, %q and %q", old, current)
	}
	return nil
}

func claimsOf(e certificate.Extensions) identity.Claims {
	return identity.Claims{
		BuildSignerURI: e.BuildSignerURI, BuildSignerDigest: e.BuildSignerDigest,
		RunnerEnvironment: e.RunnerEnvironment,
		SourceRepository:  e.SourceRepositoryURI, SourceRepositoryID: e.SourceRepositoryIdentifier,
		SourceOwner: e.SourceRepositoryOwnerURI, SourceOwnerID: e.SourceRepositoryOwnerIdentifier,
		SourceRef: e.SourceRepositoryRef, SourceDigest: e.SourceRepositoryDigest,
		BuildConfigURI: e.BuildConfigURI, BuildConfigDigest: e.BuildConfigDigest,
		BuildTrigger: e.BuildTrigger, RunInvocation: e.RunInvocationURI,
		SourceRepositoryScope: e.SourceRepositoryVisibilityAtSigning,
	}
}
