package policy

import (
	"fmt"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// sourceEvidence is evidence about the source, with its fact.
type sourceEvidence struct {
	*fact
	evidence verify.Evidence
}

// sourceSummary is a verified summary of a source revision that its signer may
// make.
type sourceSummary struct {
	vsa.Summary
	evidence verify.Evidence
}

// reach answers every requirement of every level for provenance. Of several
// summaries of the source the one that shows most counts.
func (m *judgement) reach(f *fact, trust slsa.Trust) (best slsa.Report, err error) {
	q := slsa.Question{Name: m.q.Subject, Bytes: m.q.Bytes, ByDigest: m.q.ByDigest, Declared: declaredAt(m.policy.declares, m.q.At)}
	var list []sourceSummary
	if list, q.NoSource = m.sourcesOf(f); len(list) == 0 {
		return f.reached(trust, q)
	}
	for i, s := range list {
		q.Source = s.evidence
		report, err := f.reached(trust, q)
		if err != nil {
			return slsa.Report{}, err
		}
		if i == 0 || report.Level(slsa.Source) > best.Level(slsa.Source) || report.Level(slsa.Source) == best.Level(slsa.Source) && report.Level(slsa.V01) > best.Level(slsa.V01) {
			best = report
		}
	}
	return best, nil
}

// sourcesOf lists the summaries that may count for the revision that provenance
// names, or says why none does. Of the summaries of one verifier about the
// revision only the latest counts: it may have taken back an earlier one.
func (m *judgement) sourcesOf(f *fact) (list []sourceSummary, why string) {
	claim, err := f.claim()
	if err != nil {
		return nil, ""
	}
	for _, e := range m.sources {
		said, err := m.sourceSummary(e.fact)
		if err != nil {
			if why == "" {
				found := verdict.FindingOf("source", err)
				why = "a verification summary of the source revision that counts; " + found.Message
				if found.Got != "" {
					why += fmt.Sprintf(" (want %s, got %s)", found.Want, found.Got)
				}
			}
			continue
		}
		list = append(list, sourceSummary{said, e.evidence})
	}
	names := func(s sourceSummary) bool {
		return slices.ContainsFunc(s.Statement().Resources(), func(r intoto.Resource) bool {
			return claim.Source.Commit != "" && r.Digest["gitCommit"] == claim.Source.Commit
		})
	}
	all := slices.Clone(list)
	return slices.DeleteFunc(list, func(s sourceSummary) bool {
		return slices.ContainsFunc(all, func(o sourceSummary) bool {
			return names(o) && names(s) && o.Verifier.ID == s.Verifier.ID && o.ResourceURI == s.ResourceURI && o.replaces(s)
		})
	}), why
}

// replaces reports whether a summary is later than another. Of two at the same
// time the one that did not pass counts.
func (s sourceSummary) replaces(o sourceSummary) bool {
	return s.Verified.After(o.Verified) || s.Verified.Equal(o.Verified) && s.Result != vsa.Passed && o.Result == vsa.Passed
}

// sourceSummary checks that evidence is a verification summary, of a time that
// has passed, by an identity that the policy lists under sources for the
// verifier that the summary names.
func (m *judgement) sourceSummary(f *fact) (vsa.Summary, error) {
	differ := func(code verdict.Code, message, want, got string) error {
		return &verdict.Error{Finding: verdict.Find(code, "source", "%s", message).Differ(want, got).Citing(f.bundle)}
	}
	if f.kind != vsa.PredicateType {
		return vsa.Summary{}, differ(verdict.PredicateType, "the evidence about the source has another predicate type", vsa.PredicateType, f.kind)
	}
	said, err := vsa.Parse(f.said)
	if err != nil {
		return vsa.Summary{}, err
	}
	if err := m.policy.actors.acts(f, sources, &m.q); err != nil {
		return vsa.Summary{}, say(err)
	}
	entry, err := m.policy.actors.entryOf(f)
	switch {
	case err != nil:
		return vsa.Summary{}, err
	case entry.builder != said.Verifier.ID:
		return vsa.Summary{}, differ(verdict.VSAVerifier, "the signer may not sign for the verifier that the summary names", entry.builder, said.Verifier.ID)
	case said.Verified.IsZero() || said.Verified.After(m.q.At):
		return vsa.Summary{}, differ(verdict.VSAStale, "the summary of the source has no time of verification, or one in the future", "a time until "+m.q.At.Format(time.RFC3339), said.Verified.Format(time.RFC3339))
	}
	return said, nil
}

// SourceSummary checks that evidence is a summary of a source revision by an
// identity that the policy lists under sources. Whether it is about the right
// revision is decided with the provenance: see [Policy.NewSession].
func (h *Session) SourceSummary(e verify.Evidence, now time.Time) error {
	if e.IsZero() {
		return verdict.Refuse(verdict.EvidenceMissing, "source", "no evidence was given")
	}
	f := factOf(e)
	_, err := (&judgement{policy: &h.policy, q: Question{Subject: "source", At: now}}).sourceSummary(&f)
	return err
}

// declaredAt are the declarations of a policy at a time.
func declaredAt(list []slsa.Declaration, now time.Time) []slsa.Declaration {
	list = slices.Clone(list)
	for i := range list {
		list[i].Ended = !now.Before(list[i].Until)
	}
	return list
}

// JudgesLevels reports whether the policy says more about the SLSA levels than
// the provenance of a release can show.
func (h *Session) JudgesLevels() bool {
	return len(h.policy.declares) > 0 || h.ReadsSources()
}

// ReadsSources reports whether summaries of source revisions can count.
func (h *Session) ReadsSources() bool { return len(h.policy.actors.holders(sources)) > 0 }

// Demands are the SLSA levels that the policy requires of a class at a stage.
func (h *Session) Demands(stage Stage, class plan.Class) []slsa.Demand {
	return h.policy.cells[cell{stage, class}].demands()
}

// demands are all levels that a cell requires.
func (d demand) demands() (list []slsa.Demand) {
	if d.level > 0 {
		list = append(list, slsa.Demand{Track: slsa.Build, Level: d.level})
	}
	return append(list, d.others...)
}

// explainSources says who may speak for the source, and what is declared.
func explainSources(p Policy) Section {
	s := Section{Title: "What is not shown by provenance"}
	for _, one := range p.actors.entries {
		if one.role != sources {
			continue
		}
		for _, who := range one.signers {
			s.add("%s", who.describe("signs summaries of source revisions for "+one.builder))
		}
	}
	for _, d := range p.declares {
		s.add("%s is declared by %s until %s, and counts up to %s: %s", d.Requirement, d.By, d.Until.Format(time.DateOnly), slsa.Demand{Track: slsa.V01, Level: d.UpTo}, d.Reason)
	}
	return s
}
