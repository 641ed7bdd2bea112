package policy

import (
	"slices"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Question asks about one artifact.
type Question struct {
	Stage   Stage
	Class   plan.Class
	Subject string     // the artifact's name
	Bytes   digest.Set // what was hashed under it
	// ByDigest says that the digest is the name, as in a registry.
	ByDigest bool
	Version  string
	Commit   string // that the manifest names; empty asks for none
	// SBOM is what the SBOM that came with the artifact describes.
	SBOM digest.Digest
	// Omitted is what that SBOM says that it leaves out.
	Omitted []string
	At      time.Time // of judgement
	// Sealed says that the release's manifest was judged and is what signs the
	// artifact, which has no signature of its own.
	Sealed bool
	// Named says that a signed document that was verified, as the release's
	// manifest, names the artifact and its digest: the answer is a part of what
	// is decided by that document, and needs no proof of its own.
	Named bool
	// Why says why evidence for a check could not be brought.
	Why map[Check]error
}

// Hearing decides about many artifacts by one policy and reads each piece of
// evidence once. It is safe for use by several goroutines.
type Hearing struct {
	policy Policy
	mu     sync.Mutex // guards facts
	facts  map[digest.Digest]*Fact
}

// Hear starts a hearing.
func (p Policy) Hear() *Hearing { return &Hearing{policy: p, facts: map[digest.Digest]*Fact{}} }

// Decide answers one question from verified evidence. It is the only way to a
// Verdict.
func (p Policy) Decide(evidence []verify.Evidence, q Question) *verdict.Verdict {
	return p.Hear().Decide(evidence, q)
}

// Decide answers one question from verified evidence. Where all that the policy
// requires is met and none of it is signed, the answer is NO_PROOF, unless the
// policy says itself that this may be so.
func (h *Hearing) Decide(evidence []verify.Evidence, q Question) *verdict.Verdict {
	v := verdict.New(string(q.Class)+" "+q.Subject, q.At)
	v.Policy, v.Features = h.policy.digest, h.policy.Features()
	for _, a := range (&matter{policy: &h.policy, q: q, facts: h.read(evidence)}).decide() {
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

// read makes facts of evidence. Evidence that proves nothing makes none.
func (h *Hearing) read(evidence []verify.Evidence) []*Fact {
	h.mu.Lock()
	defer h.mu.Unlock()
	facts := make([]*Fact, 0, len(evidence))
	for _, e := range evidence {
		if e.IsZero() {
			continue
		}
		known, there := h.facts[e.Bundle()]
		if !there {
			fact := FactOf(e)
			known = &fact
			if !e.Statement().IsZero() { // a plain signature is of one artifact
				known.remember()
				h.facts[e.Bundle()] = known
			}
		}
		facts = append(facts, known)
	}
	return facts
}

// matter is one question with the facts that were brought.
type matter struct {
	policy *Policy
	q      Question
	facts  []*Fact
}

// item is one thing that is asked in a cell.
type item struct {
	name string
	mode Mode
	rule Rule
}

// ruling is the answer to one item.
type ruling struct {
	item
	answer
}

// decide answers every item of the question's cell, then doubts its own yes.
func (m *matter) decide() []ruling {
	p, q := m.policy, m.q
	asked := p.cells[cell{q.Stage, q.Class}].items
	if err := q.check(); err != nil || len(asked) == 0 {
		if err == nil {
			err = verdict.Refuse(verdict.PolicyEmpty, q.Subject, "the policy %q asks nothing of %q at stage %q", p.name, q.Class, q.Stage)
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

func (q Question) check() error {
	switch {
	case q.Bytes.SHA256.IsZero() && q.Bytes.SHA512.IsZero() || q.Subject == "":
		return verdict.Refuse(verdict.NoArtifact, q.Subject, "the question names no artifact")
	case q.At.IsZero():
		return verdict.Refuse(verdict.Usage, q.Subject, "the question has no time")
	}
	return nil
}

// Level says which levels provenance shows of an artifact, as far as the policy
// believes its builder. The evidence must be bound to the artifact.
func (h *Hearing) Level(e verify.Evidence, q Question) (slsa.Report, error) {
	m := &matter{policy: &h.policy, q: q, facts: h.read([]verify.Evidence{e})}
	if len(m.facts) == 0 || !m.binds(m.facts[0]) {
		return slsa.Report{}, verdict.Refuse(verdict.NotBound, q.Subject, "the provenance is not of this artifact")
	}
	return m.facts[0].level(m)
}

// Level is the level of the Build track that is required of a class at a
// stage; zero when none is.
func (p Policy) Level(stage Stage, class plan.Class) int { return p.cells[cell{stage, class}].level }

// Complete reports whether the SBOMs of a class may leave nothing out.
func (p Policy) Complete(stage Stage, class plan.Class) bool {
	return p.cells[cell{stage, class}].whole
}

// Asks reports how much a check of a class counts at a stage.
func (p Policy) Asks(stage Stage, class plan.Class, check Check) Mode {
	if mode, said := p.cells[cell{stage, class}].modes[check]; said {
		return mode
	}
	return Off
}

// Lacks lists what a complete answer would have proven and this policy does
// not ask for at a stage, about any of these classes.
func (p Policy) Lacks(stage Stage, classes []plan.Class) []string {
	var lacks []string
	for _, check := range []Check{Provenance, Signature, SBOM} {
		for _, class := range Judged() {
			if slices.Contains(classes, class) && slices.Contains(ChecksOf(class), check) && p.Asks(stage, class, check) != Require {
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

// view is what a rule of the policy's own can see.
func (m *matter) view() View {
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

func (m *matter) evidence(f *Fact) EvidenceView {
	e := EvidenceView{Kind: f.kind, Issuer: f.who.Issuer, Subject: f.who.Subject, Signed: f.signedAt, Claims: map[string]string{}}
	if role, err := m.policy.actors.actor(f, &m.q); err == nil {
		e.Role = string(role)
	}
	for name, value := range f.certified().All() {
		e.Claims[name] = value
	}
	claim, err := f.claim()
	if err != nil || e.Role != string(Builder) {
		return e // what others say of a build is for no rule to believe
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
