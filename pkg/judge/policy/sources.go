package policy

import (
	"fmt"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/declaration"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// sourceEvidence is a summary of a source revision or a declaration, with its
// fact.
type sourceEvidence struct {
	*fact
	evidence verify.Evidence
}

// reach answers every requirement of every level for provenance.
func (m *judgement) reach(f *fact, trust slsa.Trust, rebuilt []digest.Digest) (slsa.Report, error) {
	q := slsa.Question{Name: m.q.Subject, Bytes: m.q.Bytes, ByDigest: m.q.ByDigest, Declared: m.declarations(), Rebuilt: rebuilt}
	for _, e := range m.sources {
		if e.kind == declaration.PredicateType {
			continue
		}
		_, err := m.sourceSummary(e.fact)
		switch {
		case err == nil && e.evidence.IsZero(): // of a test case
			q = q.SupposeSource(e.who, e.said)
		case err == nil:
			q.Sources = append(q.Sources, e.evidence)
		case q.NoSource == "":
			q.NoSource = "a verification summary of the source revision that counts; " + whyNot(err)
		}
	}
	return f.reached(trust, q)
}

// whyNot says why evidence does not count, in one line.
func whyNot(err error) string {
	found := verdict.FindingOf("source", err)
	if found.Got == "" {
		return found.Message
	}
	return fmt.Sprintf("%s (want %s, got %s)", found.Message, found.Want, found.Got)
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
	case entry.age > 0 && m.q.At.Sub(said.Verified) > entry.age:
		return vsa.Summary{}, differ(verdict.VSAStale, "the summary of the source is too old", "at most "+entry.age.String()+" old", m.q.At.Sub(said.Verified).Truncate(time.Second).String())
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

// Repository is the repository that releases are built from; empty if the policy
// names none.
func (h *Session) Repository() string { return h.policy.build.source.Repository }

// Revision answers the requirements of the Source track about a commit of the
// policy's repository, which a clone shows at level 1, and returns what the
// summaries of the session proved. One that did not pass refuses, if none counts.
func (h *Session) Revision(commit, clone string, now time.Time) (r slsa.Report, proofs []verdict.Proof, err error) {
	m := &judgement{policy: &h.policy, q: Question{Subject: commit, At: now}, sources: h.sources}
	q := slsa.Question{Name: commit, Repository: h.Repository(), Commit: commit, Clone: clone}
	var failed error
	for _, e := range m.sources {
		said, err := m.sourceSummary(e.fact)
		if err != nil {
			return r, nil, err
		}
		if q.Sources = append(q.Sources, e.evidence); said.Result != vsa.Passed {
			failed = verdict.Refuse(verdict.VSAResult, commit, "the result of the summary by %q is not PASSED", said.Verifier.ID)
		}
	}
	if r, err = h.policy.actors.trust.Judge(q); err == nil && r.Level(slsa.Source) < 2 {
		err = failed
	}
	for _, e := range m.sources {
		if slices.ContainsFunc(r.Answers, func(a slsa.Answer) bool { return slices.Contains(a.Evidence, e.bundle) }) {
			proofs = append(proofs, e.proof(commit, sources))
		}
	}
	return r, proofs, err
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
			act := fmt.Sprintf("signs summaries of source revisions for %s, trusted up to SLSA Source level %d", one.builder, one.upTo)
			if one.age > 0 {
				act += fmt.Sprintf(", which count for %s", one.age)
			}
			s.add("%s", who.describe(act))
		}
	}
	for _, d := range p.declares {
		switch {
		case d.NotImplementable:
			s.add("%s is not implementable, says %s, and counts towards no level: %s", d.Requirement, d.By, d.Reason)
			continue
		case d.role != "":
			s.add("%s can be declared in a file signed in the role %s, for at most %d days%s", d.Requirement, d.role, declaration.MaxLife/(24*time.Hour), d.upTo())
			continue
		}
		s.add("%s is declared by %s until %s%s: %s", d.Requirement, d.By, d.Until.Format(time.DateOnly), d.upTo(), d.Reason)
	}
	return s
}
