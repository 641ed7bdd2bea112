package gate

import (
	"maps"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Claiming asks, beside the identity, that the certificate claims this of the
// run that signed. A key claims nothing, so it meets no demand.
func (s Signer) Claiming(d identity.Demand) Signer {
	s.claims = maps.Clone(d)
	return s
}

// Without refuses what was revoked, whoever signed it.
func (s Signer) Without(r Revocations) Signer {
	s.revoked = r
	return s
}

// admit refuses verified evidence that the signer who is meant did not make.
func (s Signer) admit(e verify.Evidence, subject string) error {
	refuse := func(code verdict.Code, message, want, got string) error {
		return &verdict.Error{Finding: verdict.Find(code, subject, "%s", message).Differ(want, got).Citing(e.Bundle())}
	}
	if !s.made(e) {
		code, message := s.difference(e)
		return refuse(code, message, s.String(), e.Identity().String())
	}
	if name, unmet := s.claims.Unmet(e.Claims()); unmet {
		return refuse(claimCode(name), "the certificate says something else of "+name, s.claims[name], maps.Collect(e.Claims().All())[name])
	}
	if err := s.revoked.check(e, subject); err != nil {
		return err
	}
	return contradicted(e, subject)
}

// difference says how near the signer came to the one who is meant.
func (s Signer) difference(e verify.Evidence) (verdict.Code, string) {
	nearest := identity.Stranger
	for _, m := range s.who {
		nearest = max(nearest, m.Compare(e.Identity()))
	}
	switch nearest {
	case identity.OtherIssuer:
		return verdict.Issuer, "genuine, but another identity provider vouched for this name"
	case identity.OtherType:
		return verdict.SANType, "genuine, but the certificate names it as another kind of name"
	}
	return verdict.Identity, "genuine, but signed by somebody else"
}

// claimCode is the reason that stands for a claim.
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

// contradicted refuses provenance that names another source than the
// certificate of its signer. The authority wrote the certificate from what the
// platform said; the statement is what the run said itself. Where either is
// silent there is nothing to compare.
func contradicted(e verify.Evidence, subject string) error {
	said, err := provenance.Read(e.Statement())
	if err != nil {
		return nil //nolint:nilerr // no provenance; what it must be is asked elsewhere
	}
	claims := e.Claims()
	for _, c := range []struct{ what, certificate, statement string }{
		{"the repository", repository(claims.SourceRepository), repository(said.Source.Repository)},
		{"the commit", claims.SourceDigest, said.Source.Commit},
	} {
		if c.certificate != "" && c.statement != "" && c.certificate != c.statement {
			return &verdict.Error{Finding: verdict.Find(verdict.CertStatement, subject, "certificate and statement differ about %s", c.what).
				Differ(c.certificate, c.statement).Citing(e.Bundle())}
		}
	}
	return nil
}

// repository is an address without the words that only say how to fetch it.
func repository(address string) string {
	return strings.TrimSuffix(strings.TrimPrefix(address, "git+"), ".git")
}
