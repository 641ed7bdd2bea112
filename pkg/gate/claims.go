package gate

import (
	"maps"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Claiming also requires that the certificate makes these claims about the run
// that signed. A key makes no claims, so it never meets a demand.
func (s Signer) Claiming(d identity.Demand) Signer {
	s.claims = maps.Clone(d)
	return s
}

// Without refuses evidence by revoked signers.
func (s Signer) Without(r Revocations) Signer {
	s.revoked = r
	return s
}

// admit refuses verified evidence that the required signer did not make.
func (s Signer) admit(e verify.Evidence, subject string) error {
	refuse := func(code verdict.Code, message, want, got string) error {
		return &verdict.Error{Finding: verdict.Find(code, subject, "%s", message).Differ(want, got).Citing(e.Bundle())}
	}
	if !s.made(e) {
		code, message := s.difference(e)
		return refuse(code, message, s.String(), e.Identity().String())
	}
	if name, unmet := s.claims.Unmet(e.Claims()); unmet {
		return refuse(claimCode(name), "the certificate has another value of "+name, s.claims[name], maps.Collect(e.Claims().All())[name])
	}
	return s.revoked.check(e, subject)
}

// difference says how the actual signer differs from the required one.
func (s Signer) difference(e verify.Evidence) (verdict.Code, string) {
	nearest := identity.Stranger
	for _, m := range s.who {
		nearest = max(nearest, m.Compare(e.Identity()))
	}
	switch nearest {
	case identity.OtherIssuer:
		return verdict.Issuer, "valid, but the certificate's identity comes from another issuer"
	case identity.OtherType:
		return verdict.SANType, "valid, but the certificate has this name as another type of identity"
	}
	return verdict.Identity, "valid, but signed by another identity"
}

// claimCode is the reason code for a claim that differs.
func claimCode(name string) verdict.Code {
	switch name {
	case "buildSignerURI", "buildConfigURI":
		return verdict.Workflow
	case "sourceRepositoryRef":
		return verdict.SourceRef
	case "sourceRepositoryIdentifier", "sourceRepositoryOwnerIdentifier":
		return verdict.SourceID
	case "runnerEnvironment":
		return verdict.Runner
	case "buildTrigger":
		return verdict.Trigger
	case "sourceRepositoryURI", "sourceRepositoryOwnerURI":
		return verdict.SourceRepo
	case "sourceRepositoryDigest", "buildConfigDigest", "buildSignerDigest":
		return verdict.SourceCommit
	}
	return verdict.Claim
}

// contradicted refuses provenance that names another source than its signer's
// certificate. The certificate authority wrote the certificate from the
// platform's data; the run itself wrote the statement. A value that either
// omits is not compared.
func contradicted(e verify.Evidence, subject string) error {
	said, err := provenance.Read(e.Statement())
	if err != nil {
		return nil //nolint:nilerr // no provenance; what it must be is asked elsewhere
	}
	claims := e.Claims()
	what, signed, stated := said.Source.Contradiction(claims.SourceRepository, claims.SourceDigest)
	if what == "" {
		return nil
	}
	return &verdict.Error{Finding: verdict.Find(verdict.CertStatement, subject, "certificate and statement differ in %s", what).Differ(signed, stated).Citing(e.Bundle())}
}
