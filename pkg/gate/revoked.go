package gate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Revocations list the signers whose signatures no longer count. The zero value
// revokes no signer.
type Revocations struct{ list []revocation }

// revocation names an identity, a certificate or a key, and from which day it
// is revoked.
type revocation struct {
	Identity    identity.Identity `yaml:"identity"`
	Certificate string            `yaml:"certificate"` // digest of its bytes
	Key         string            `yaml:"key"`         // digest of the public key
	Since       string            `yaml:"since"`       // a day; empty means always
	Reason      string            `yaml:"reason"`

	since time.Time
}

type revocationsFile struct {
	APIVersion string       `yaml:"apiVersion"`
	Kind       string       `yaml:"kind"`
	Revoked    []revocation `yaml:"revoked"`
}

// ParseRevocations reads a file of kind Revocations. An empty list is refused:
// it would look as if it revoked something.
func ParseRevocations(raw []byte) (Revocations, error) {
	var f revocationsFile
	err := strictyaml.Unmarshal(raw, &f)
	switch {
	case err != nil:
	case f.APIVersion != "waybill/v1" || f.Kind != "Revocations":
		err = fmt.Errorf("apiVersion %.40q and kind %.40q: want waybill/v1 and Revocations", f.APIVersion, f.Kind)
	case len(f.Revoked) == 0:
		err = fmt.Errorf("revoked: want at least one entry")
	}
	for i := range f.Revoked {
		if err == nil {
			if err = f.Revoked[i].load(); err != nil {
				err = fmt.Errorf("revoked, entry %d: %w", i+1, err)
			}
		}
	}
	if err != nil {
		return Revocations{}, verdict.Wrap(verdict.ConfigParse, "revocations", err)
	}
	return Revocations{list: f.Revoked}, nil
}

func (r *revocation) load() (err error) {
	named := slice.Count([]bool{r.Identity != identity.Identity{}, r.Certificate != "", r.Key != ""}, func(is bool) bool { return is })
	if named != 1 || r.Reason == "" {
		return fmt.Errorf("want a reason, and exactly one of identity, certificate and key")
	}
	if r.Since != "" {
		if r.since, err = time.Parse(time.DateOnly, r.Since); err != nil {
			return err
		}
		if r.since.IsZero() {
			return fmt.Errorf("since: %q is no day; leave it out to revoke all signatures of the signer", r.Since)
		}
	}
	if text := r.Certificate + r.Key; text != "" {
		named, err := digest.Parse(text)
		if err == nil && named.Algorithm() != digest.SHA256 {
			err = fmt.Errorf("%q: want a sha256 digest, the algorithm by which certificates and keys are compared", text)
		}
		return err
	}
	return r.Identity.Check()
}

// names reports whether evidence is by the revoked signer, and not proven to be
// older than the revocation.
func (r revocation) names(e verify.Evidence) bool {
	if !e.SignedAt().IsZero() && e.SignedAt().Before(r.since) {
		return false
	}
	switch {
	case r.Certificate != "":
		return r.Certificate == e.Certificate().String()
	case r.Key != "":
		return r.Key == e.Key().String()
	}
	return r.Identity == e.Identity()
}

func (r Revocations) check(e verify.Evidence, subject string) error {
	i := slices.IndexFunc(r.list, func(one revocation) bool { return one.names(e) })
	if i < 0 {
		return nil
	}
	return &verdict.Error{Finding: verdict.Find(verdict.Revoked, subject, "valid, but the signer was revoked: %q", r.list[i].Reason).Citing(e.Bundle())}
}

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
	return cmp.Or(map[string]verdict.Code{
		"buildSignerURI": verdict.Workflow, "buildConfigURI": verdict.Workflow,
		"sourceRepositoryRef":        verdict.SourceRef,
		"sourceRepositoryIdentifier": verdict.SourceID, "sourceRepositoryOwnerIdentifier": verdict.SourceID,
		"runnerEnvironment":   verdict.Runner,
		"buildTrigger":        verdict.Trigger,
		"sourceRepositoryURI": verdict.SourceRepo, "sourceRepositoryOwnerURI": verdict.SourceRepo,
		"sourceRepositoryDigest": verdict.SourceCommit, "buildConfigDigest": verdict.SourceCommit, "buildSignerDigest": verdict.SourceCommit,
	}[name], verdict.Claim)
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
