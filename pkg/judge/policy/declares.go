package policy

import (
	"fmt"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/declaration"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// declares is one row of the policy: a declaration that the policy makes itself,
// or the role that may sign one.
type declares struct {
	slsa.Declaration
	role Role // empty: the policy declares it
}

// upTo says up to which level a declaration counts; empty for a control of the
// OpenSSF Baseline, which has no level.
func (d declares) upTo() string {
	if d.UpTo == 0 {
		return ""
	}
	return fmt.Sprintf(", and counts up to %s", slsa.Demand{Track: slsa.V01, Level: d.UpTo})
}

// MayDeclare reports whether a policy can let the role declare requirements. It
// is for roles of people: no identity that builds, signs or verifies artifacts
// may vouch for itself.
func (r Role) MayDeclare() bool { return r == Officer || r == Signoffs }

// declarations are those of the policy and of signed files, each with what it
// lacks to count.
func (m *judgement) declarations() (list []slsa.Declaration) {
	for _, row := range m.policy.declares {
		d := row.Declaration
		switch {
		case row.role != "":
			list = append(list, m.signedDeclarations(row)...)
		case !d.NotImplementable && !m.q.At.Before(d.Until):
			d.Lacks = fmt.Sprintf("a declaration of the policy; that of %.200q ended at %s", d.By, d.Until.UTC().Format(time.RFC3339))
		}
		list = append(list, d)
	}
	return list
}

// signedDeclarations are the signed ones of a row. Of several about the same
// repository or builder only that of the highest number counts, because it may
// have taken back an earlier one.
func (m *judgement) signedDeclarations(row declares) (list []slsa.Declaration) {
	numbers, newest := []int{}, map[string]int{}
	for _, e := range m.sources {
		said, err := declaration.Parse(e.said)
		if err != nil || said.Requirement != row.Requirement {
			continue
		}
		made := slsa.Declaration{
			Requirement: said.Requirement, By: said.By, Reason: said.Reason, Until: said.Until, UpTo: row.UpTo,
			About: said.About, Signer: e.who.String(), Evidence: e.bundle,
		}
		if err := m.declaredBy(e.fact, row, said); err != nil {
			made.Lacks = "a declaration that counts; " + whyNot(err)
		} else {
			newest[said.About] = max(newest[said.About], said.Sequence)
			if !m.q.At.Before(said.Until) {
				made.Lacks = fmt.Sprintf("a declaration that has not ended; that of %q ended at %s", said.By, said.Until.UTC().Format(time.RFC3339))
			}
		}
		list, numbers = append(list, made), append(numbers, said.Sequence)
	}
	for i, made := range list {
		if n := newest[made.About]; made.Lacks == "" && numbers[i] < n {
			list[i].Lacks = fmt.Sprintf("a declaration that counts; number %d of %q is replaced by number %d", numbers[i], made.By, n)
		}
	}
	return list
}

// declaredBy checks that the signer of a declaration has the role of the row, and
// that the declaration does not last too long.
func (m *judgement) declaredBy(f *fact, row declares, said declaration.Predicate) error {
	if err := m.policy.actors.acts(f, row.role, &m.q); err != nil {
		return say(err)
	}
	if last := f.signedAt.Add(declaration.MaxLife); said.Until.After(last) {
		return &verdict.Error{Finding: verdict.Find(verdict.StatementParse, "declaration", "the declaration lasts longer than %d days from its signature", declaration.MaxLife/(24*time.Hour)).
			Differ("an end until "+last.Format(time.RFC3339), said.Until.Format(time.RFC3339)).Citing(f.bundle)}
	}
	return nil
}

// Declaration checks that evidence is a declaration that can count: of a
// requirement that the policy lets a role declare, signed in that role. Whether
// it is about the right repository or builder is decided with the provenance,
// and whether it has ended with the question: see [Policy.NewSession].
func (h *Session) Declaration(e verify.Evidence) (verdict.Proof, error) {
	if e.IsZero() {
		return verdict.Proof{}, verdict.Refuse(verdict.EvidenceMissing, "declaration", "no evidence was given")
	}
	f := factOf(e)
	said, err := declaration.Parse(f.said)
	if err != nil {
		return verdict.Proof{}, err
	}
	row, err := declaring(&h.policy, said.Requirement)
	if err != nil {
		return verdict.Proof{}, err
	}
	m := &judgement{policy: &h.policy, q: Question{Subject: "declaration"}}
	return f.proof(said.Requirement, row.role), m.declaredBy(&f, row, said)
}

// ReadsDeclarations reports whether signed declarations can count.
func (h *Session) ReadsDeclarations() bool {
	return slices.ContainsFunc(h.policy.declares, func(d declares) bool { return d.role != "" })
}

// DeclaringRole is the role that may declare a requirement in a signed file.
func (h *Session) DeclaringRole(requirement string) (Role, error) {
	row, err := declaring(&h.policy, requirement)
	return row.role, err
}

func declaring(p *Policy, requirement string) (declares, error) {
	for _, d := range p.declares {
		if d.Requirement == requirement && d.role != "" {
			return d, nil
		}
	}
	return declares{}, verdict.Refuse(verdict.IdentityRole, "declaration", "the policy %q lets no role declare %q", p.name, requirement).
		Advise("add a row with the requirement and a role to the policy's declares, or declare another requirement")
}
