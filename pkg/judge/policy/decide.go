package policy

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Question is what a policy decides about: one artifact at one stage.
type Question struct {
	Stage   Stage
	Class   plan.Class
	Subject string     // the artifact's name
	Bytes   digest.Set // the digests computed from its bytes
	// ByDigest says that the artifact is named by its digest, as in a registry.
	ByDigest bool
	// Image is the repository in which an image was found, and its digest:
	// REPOSITORY@DIGEST.
	Image   string
	Version string
	Commit  string // the commit that the manifest names; empty requires none
	// SBOM is the digest of the bytes that the artifact's SBOM describes.
	SBOM digest.Digest
	// Omitted lists what that SBOM says it leaves out.
	Omitted []string
	// Lacks lists the elements that it lacks, by profile; a profile without an
	// entry was not compared.
	Lacks map[string][]string
	At    time.Time // time of verification
	// Sealed says that the release's manifest was verified and is the
	// artifact's signature, because the artifact has none of its own.
	Sealed bool
	// Named says that a verified signed document, such as the release manifest,
	// lists the artifact and its digest. The answer is then part of the
	// decision about that document, and needs no proof of its own.
	Named bool
	// Why says for a check why its evidence could not be obtained.
	Why map[Check]error

	decides bool // no later question has the version
}

// Session decides about many artifacts with one policy, and parses each piece
// of evidence once. It is safe for concurrent use.
type Session struct {
	policy  Policy
	sources []sourceEvidence
	mu      sync.Mutex // guards facts
	facts   map[digest.Digest]*fact
}

// NewSession starts a session. The sources are verified summaries of source
// revisions, and declarations; they count for the provenance that names the
// revision, or what the declaration is about, as far as the policy trusts their
// signers.
func (p Policy) NewSession(sources ...verify.Evidence) *Session {
	h := &Session{policy: p, facts: map[digest.Digest]*fact{}}
	for _, e := range sources {
		if f := factOf(e); !e.IsZero() {
			h.sources = append(h.sources, sourceEvidence{&f, e})
		}
	}
	return h
}

// Decide answers one question from verified evidence. Only Decide makes a
// Verdict.
func (p Policy) Decide(evidence []verify.Evidence, q Question) *verdict.Verdict {
	return p.NewSession().Decide(evidence, q)
}

// Decide answers one question from verified evidence. If everything that the
// policy requires is met but none of it is signed, the result is NO_PROOF,
// unless the policy explicitly accepts unsigned artifacts.
func (h *Session) Decide(evidence []verify.Evidence, q Question) *verdict.Verdict {
	v := verdict.New(string(q.Class)+" "+q.Subject, q.At)
	v.Policy, v.Features = h.policy.digest, h.policy.Features()
	for _, a := range (&judgement{policy: &h.policy, q: q, facts: h.read(evidence), sources: h.sources}).decide() {
		switch {
		case a.mode == Require:
			v.Counts.Required++
			if a.met {
				v.Counts.Verified++
			} else {
				v.AddError(q.Subject, a.err)
			}
		case !a.met:
			v.Warn(verdict.FindingOf(q.Subject, a.err))
		}
		v.Proofs = append(v.Proofs, a.proofs...)
	}
	if v.Counts.Required > 0 && !q.Named {
		if h.policy.unsigned {
			v.SettleInsecureUnsigned()
		}
		v.Settle(q.Subject)
	}
	return v
}

// read converts evidence to facts, and skips zero evidence.
func (h *Session) read(evidence []verify.Evidence) []*fact {
	h.mu.Lock()
	defer h.mu.Unlock()
	facts := make([]*fact, 0, len(evidence))
	for _, e := range evidence {
		if e.IsZero() {
			continue
		}
		known, there := h.facts[e.Bundle()]
		if !there {
			fact := factOf(e)
			known = &fact
			if !e.Statement().IsZero() { // a plain signature covers one artifact only
				known.remember()
				h.facts[e.Bundle()] = known
			}
		}
		facts = append(facts, known)
	}
	return facts
}

// judgement is one question with the facts to decide it by.
type judgement struct {
	policy *Policy
	q      Question
	facts  []*fact
	// sources are summaries of source revisions, and declarations.
	sources []sourceEvidence
}

// item is one check that a cell requires.
type item struct {
	name string
	mode Mode
	rule requirement
}

// ruling is the answer to one item.
type ruling struct {
	item
	answer
}

// decide answers every item of the question's cell. If all are met, it runs the
// vacuity probe.
func (m *judgement) decide() []ruling {
	m.q.decides = true
	p, q := m.policy, m.q
	asked := m.present(p.cells[cell{q.Stage, q.Class}].items)
	if err := q.check(); err != nil || len(asked) == 0 {
		if err == nil {
			err = verdict.Refuse(verdict.PolicyEmpty, q.Subject, "the policy %q has no requirements for %q at stage %q", p.name, q.Class, q.Stage)
		}
		return []ruling{{item{mode: Require}, answer{err: err}}}
	}
	rulings := make([]ruling, len(asked))
	accepted := true
	for i, it := range asked {
		rulings[i] = ruling{it, it.rule.judge(m)}
		rulings[i].err = say(rulings[i].err)
		accepted = accepted && (it.mode != Require || rulings[i].met)
	}
	if accepted {
		if err := m.probe(asked); err != nil {
			return []ruling{{item{mode: Require}, answer{err: err}}}
		}
	}
	return rulings
}

// present requires the items that are required if there is evidence for them,
// and drops those without. Evidence by an identity that the policy does not list
// is foreign: anyone may attach some. Evidence that is unavailable may be there.
func (m *judgement) present(asked []item) (kept []item) {
	if !slices.ContainsFunc(asked, func(it item) bool { return it.mode == ifPresent }) {
		return asked
	}
	for _, it := range asked {
		if it.mode == ifPresent {
			it.mode = Require
			if m.q.Why[Check(it.name)] == nil && !slices.ContainsFunc(m.facts, func(f *fact) bool { return m.offers(f, Check(it.name)) }) {
				continue
			}
		}
		kept = append(kept, it)
	}
	return kept
}

// offers reports whether a fact is evidence for a check, by an identity that the
// policy lists in any role.
func (m *judgement) offers(f *fact, check Check) bool {
	if f.IsZero() || check == Provenance && !isProvenance(f.kind) || check == Summary && f.kind != vsa.PredicateType {
		return false
	}
	_, err := m.policy.actors.entryOf(f)
	return !errors.Is(err, errNoEntry)
}

func (q Question) check() error {
	switch {
	case q.Bytes.SHA256.IsZero() && q.Bytes.SHA512.IsZero() || q.Subject == "":
		return verdict.Refuse(verdict.NoArtifact, q.Subject, "the question names no artifact")
	case q.At.IsZero():
		return verdict.Refuse(verdict.Usage, q.Subject, "the question has no time")
	}
	return nil
}

// Level reports the SLSA levels that provenance shows for an artifact, limited
// by how far the policy trusts its builder, the verifiers of its source,
// rebuilders, whose statements are among the others, and declarations. The
// evidence must be bound to the artifact.
func (h *Session) Level(e verify.Evidence, q Question, others ...verify.Evidence) (slsa.Report, error) {
	m := &judgement{policy: &h.policy, q: q, facts: h.read(append([]verify.Evidence{e}, others...)), sources: h.sources}
	if e.IsZero() || !m.binds(m.facts[0]) {
		return slsa.Report{}, verdict.Refuse(verdict.NotBound, q.Subject, "the provenance does not cover this artifact")
	}
	return m.facts[0].level(m)
}

// SBOMs reports whether SBOMs of a class must be complete, and the profile whose
// elements they must give, or "".
func (p Policy) SBOMs(stage Stage, class plan.Class) (complete bool, profile string) {
	d := p.cells[cell{stage, class}]
	return d.whole, d.profile
}

// Asks returns the mode of a check for a class at a stage.
func (p Policy) Asks(stage Stage, class plan.Class, check Check) Mode {
	if mode, said := p.cells[cell{stage, class}].modes[check]; said {
		return mode
	}
	return Off
}

// Lacks lists the checks of a complete verdict that this policy does not
// require for these classes at a stage.
func (p Policy) Lacks(stage Stage, classes []plan.Class) (lacks []string) {
	for _, check := range []Check{Provenance, Signature, SBOM} {
		for _, class := range judgedBy(p, stage) {
			if slices.Contains(classes, class) && slices.Contains(checksOf(class), check) && p.Asks(stage, class, check) != Require {
				lacks = append(lacks, string(check)+" of "+string(class))
			}
		}
	}
	if slices.Contains(p.signoff.stages, stage) && p.NeedsSignoff(stage) != Require {
		lacks = append(lacks, "sign-off")
	}
	if p.whole.plan != Require {
		lacks = append(lacks, "plan")
	}
	for _, place := range []string{Files, Images} {
		if p.whole.closed[place] != Require {
			lacks = append(lacks, "closed "+place)
		}
	}
	return lacks
}

// view is what custom rules of the policy can see.
func (m *judgement) view() View {
	v := View{Stage: string(m.q.Stage), Version: m.q.Version, Time: m.q.At, Artifact: ArtifactView{
		Name: m.q.Subject, Class: string(m.q.Class), SHA256: m.q.Bytes.SHA256.Hex(), Commit: m.q.Commit,
	}}
	for _, f := range m.facts {
		if !f.IsZero() && m.binds(f) {
			v.Evidence = append(v.Evidence, m.evidence(f))
		}
	}
	return v
}

func (m *judgement) evidence(f *fact) EvidenceView {
	e := EvidenceView{Kind: f.kind, Issuer: f.who.Issuer, Subject: f.who.Subject, Signed: f.signedAt, Claims: map[string]string{}}
	if role, err := m.policy.actors.actor(f, &m.q); err == nil {
		e.Role = string(role)
	}
	maps.Insert(e.Claims, f.certified().All())
	claim, err := f.claim()
	if err != nil || e.Role != string(Builder) {
		return e // rules must not use provenance that another role signed
	}
	e.Provenance = ProvenanceView{
		Builder: claim.Builder.ID, BuildType: claim.BuildType, Repository: claim.Source.Repository, Ref: claim.Source.Ref,
		Commit: claim.Source.Commit, Invocation: claim.Run.InvocationID, Parameters: map[string]string{}, Dependencies: dependencies(*claim),
	}
	for _, p := range claim.Parameters {
		e.Provenance.Parameters[p.Name] = plain(p.Value)
	}
	if report, err := f.level(m); err == nil {
		e.Provenance.Level = report.On("build").Level
	}
	return e
}
