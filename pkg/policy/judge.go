package policy

import (
	"slices"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/identity"
	"github.com/waybill-release/waybill/pkg/provenance"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
)

// Ask is what one piece of evidence must prove.
type Ask struct {
	Role Role
	// Kind is a predicate type, or "blob" for a plain signature.
	Kind string
	// Subject is the artifact's name, and Bytes what was hashed under it.
	Subject string
	Bytes   digest.Set
	// InRegistry says that the digest is the name: registries have no other.
	InRegistry bool
	// Whole says that the statement is not about one artifact but is itself
	// what is asked for: a manifest binds its subjects entry by entry.
	Whole bool
}

// Judge answers one ask: the right kind of evidence, bound to the right
// bytes, by the right role. What it returns is what was proven and by whom.
func (p Policy) Judge(e verify.Evidence, ask Ask) (verdict.Proof, error) {
	if e.IsZero() {
		return verdict.Proof{}, verdict.Refuse(verdict.EvidenceMissing, ask.Subject, "no evidence that says %s", ask.Kind)
	}
	if e.Kind() != ask.Kind {
		return verdict.Proof{}, refuse(e, verdict.Find(verdict.PredicateType, ask.Subject, "the evidence says something else").Differ(ask.Kind, e.Kind()))
	}
	if err := p.checkRole(e, ask); err != nil {
		return verdict.Proof{}, err
	}
	if !bound(e, ask) {
		return verdict.Proof{}, refuse(e, verdict.Find(verdict.NotBound, ask.Subject, "the evidence is genuine, but not of this artifact").
			Differ(ask.Bytes.SHA256.String(), subjectOf(e, ask.Subject)))
	}
	return verdict.Proof{
		Subject: ask.Subject, Statement: ask.Kind, Role: string(ask.Role),
		Identity: e.Identity().Subject, Issuer: e.Identity().Issuer,
		SignedAt: e.SignedAt(), LogIndex: e.LogIndex(), Log: e.Log(), Bundle: e.Bundle(),
	}, nil
}

// Provenance judges what verified provenance says: that its signer may speak
// for the builder it names, and that it was built from the canonical source.
func (p Policy) Provenance(e verify.Evidence, said provenance.Provenance) error {
	id := said.RunDetails.Builder.ID
	i := slices.IndexFunc(p.builders, func(b builder) bool { return b.id == id })
	if i < 0 || !p.builders[i].says.Match(e.Identity()) {
		return refuse(e, verdict.Find(verdict.Builder, id, "%s may not speak for this builder", e.Identity()))
	}
	if got := said.BuildDefinition.ExternalParameters.Config.Repository; got != p.source {
		return refuse(e, verdict.Find(verdict.SourceRepo, "provenance", "built from another repository").Differ(p.source, got))
	}
	return nil
}

// RoleOf is the role in which the policy knows an identity.
func (p Policy) RoleOf(who identity.Identity) (Role, bool) {
	for role, matchers := range p.roles {
		if slices.ContainsFunc(matchers, func(m identity.Matcher) bool { return m.Match(who) }) {
			return role, true
		}
	}
	if slices.ContainsFunc(p.builders, func(b builder) bool { return b.says.Match(who) }) {
		return Builder, true
	}
	return "", false
}

// Expected are the identities that may act in a role, for messages.
func (p Policy) Expected(role Role) []string {
	var names []string
	for _, m := range p.roles[role] {
		names = append(names, m.String())
	}
	if role == Builder {
		for _, b := range p.builders {
			names = append(names, b.says.String())
		}
	}
	return names
}

func (p Policy) checkRole(e verify.Evidence, ask Ask) error {
	role, known := p.RoleOf(e.Identity())
	want := "nobody"
	if names := p.Expected(ask.Role); len(names) > 0 {
		want = names[0]
	}
	switch {
	case !known:
		return refuse(e, verdict.Find(verdict.Identity, ask.Subject, "the policy does not know who signed this").Differ(want, e.Identity().String()))
	case role != ask.Role:
		return refuse(e, verdict.Find(verdict.IdentityRole, ask.Subject, "signed by the %s identity, where the %s identity must", role, ask.Role).
			Differ(want, e.Identity().String()))
	}
	return nil
}

func bound(e verify.Evidence, ask Ask) bool {
	if ask.Whole {
		return true
	}
	if ask.InRegistry {
		return e.CoversBytes(ask.Bytes.SHA256)
	}
	return e.Covers(ask.Subject, ask.Bytes)
}

func subjectOf(e verify.Evidence, name string) string {
	for _, s := range e.Statement().Subjects() {
		if s.Name == name {
			return s.Digests.SHA256.String()
		}
	}
	return "no subject of this name"
}

func refuse(e verify.Evidence, f verdict.Finding) *verdict.Error {
	return &verdict.Error{Finding: f.Citing(e.Bundle())}
}
