package policy

import (
	"fmt"
	"maps"
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

// SummaryAges maps each verifier whose summaries the policy accepts to their
// maximum age. If several entries name a verifier, the longest age counts.
func SummaryAges(p Policy) map[string]time.Duration {
	ages := map[string]time.Duration{}
	for _, s := range p.summaries {
		ages[s.Verifier] = max(ages[s.Verifier], s.age)
	}
	return ages
}

// Vouching returns a policy that accepts, wherever this one requires
// provenance, a verification summary in its place, if it counts by the policy's
// summaries and has the level required of the class. Without such a summary,
// provenance is evaluated as usual. The caller must report this, because the
// policy keeps its digest.
func (p Policy) Vouching() (Policy, error) {
	p.summaries = slices.DeleteFunc(slices.Clone(p.summaries), func(s summary) bool { return s.pinned.IsZero() })
	if len(p.summaries) == 0 {
		return Policy{}, verdict.Refuse(verdict.Usage, "--accept-vsa", "the policy %q lists no verifier under summaries whose policy it pins by digest", p.name).
			Advise("leave the flag out to evaluate provenance, or add summaries to the policy")
	}
	cells := maps.Clone(p.cells)
	p.vouch = map[cell]requirement{}
	for at, d := range cells {
		i := slices.IndexFunc(d.items, func(it item) bool { return it.name == string(Provenance) })
		if i < 0 || len(d.others) > 0 { // a summary of an artifact shows no level of these tracks
			continue
		}
		vouched, err := summarized(p.summaries, d.level)
		if err != nil {
			return Policy{}, err
		}
		either, err := oneOf(vouched, d.items[i].rule)
		if err != nil {
			return Policy{}, err
		}
		d.items = slices.Clone(d.items)
		d.items[i].rule = either
		cells[at], p.vouch[at] = d, vouched
	}
	p.cells = cells
	return p, nil
}

// summarized is met by a summary that counts and has the required SLSA Build
// level, if there is one.
func summarized(summaries []summary, level int) (requirement, error) {
	var rules []requirement
	for _, s := range summaries {
		if s.Levels[vsa.TrackBuild] < level {
			s.Levels = maps.Clone(s.Levels)
			s.Levels[vsa.TrackBuild] = level
		}
		rules = append(rules, &some{role: Verifier, absent: verdict.EvidenceMissing, what: "verification summary", check: Summary,
			clauses: []step{perRelease(ofKind(vsa.PredicateType)), perRelease(byRole(Verifier)), perRelease(s.spokenForBy), perArtifact(bound), perArtifact(s.answers)}})
	}
	return oneOf(rules...)
}

// Vouched is a summary that replaces provenance.
type Vouched struct {
	verdict.Proof
	Summary vsa.Summary
}

// Vouched reports whether a verifier's summary replaces an artifact's
// provenance, in a policy made by [Policy.Vouching].
func (h *Session) Vouched(evidence []verify.Evidence, q Question) (Vouched, error) {
	if err := q.check(); err != nil {
		return Vouched{}, err
	}
	rule := h.policy.vouch[cell{q.Stage, q.Class}]
	if rule == nil {
		return Vouched{}, verdict.Refuse(verdict.EvidenceMissing, q.Subject, "no verification summary replaces the artifact's provenance")
	}
	m := &judgement{policy: &h.policy, q: q, facts: h.read(evidence)}
	a := rule.judge(m)
	if !a.met {
		return Vouched{}, say(a.err)
	}
	if err := m.probe([]item{{string(Summary), Require, rule}}); err != nil {
		return Vouched{}, err
	}
	for _, f := range m.facts {
		if f.bundle != a.proofs[0].Bundle {
			continue
		}
		said, err := vsa.Parse(f.said)
		return Vouched{a.proofs[0], said}, err
	}
	return Vouched{}, verdict.Refuse(verdict.EvidenceMissing, q.Subject, "the accepted summary was not found again")
}

// Vouches reports whether a summary may replace the provenance of a class at a
// stage: see [Policy.Vouching].
func (p Policy) Vouches(stage Stage, class plan.Class) bool {
	return p.vouch[cell{stage, class}] != nil
}
