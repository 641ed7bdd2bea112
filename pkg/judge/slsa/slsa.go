// Package slsa says which SLSA level an artifact has reached, and why not the
// next.
//
// Every requirement gets an [Answer] of its own: met, not met, or not shown,
// with the evidence, or with what is missing named. A level is reached when
// every requirement up to it is met; nothing is assumed. What a builder says
// of itself counts for nothing unless [Trust], which is the verifier's own
// choice, lets the one who signed speak for that builder.
//
//	trust, err := slsa.NewTrust(pairs, verifiers)
//	report, err := trust.Judge(slsa.Question{Name: name, Bytes: digests, Provenance: evidence})
//	fmt.Print(report)            // a table
//	report.Level(slsa.Build)     // 3
//
// An artifact made of others has no higher level than they: see [Minimum].
//
// Three scales are judged: [V01], the four levels of SLSA v0.1 that KEP-3027
// counts by; [Build] and [Source], the tracks of SLSA v1.2.
//
// The package verifies no signature and reads no clock: whether a source
// summary is fresh enough is for its reader to ask.
package slsa

import (
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Question is one artifact with all that is known of how it came to be. What
// is left out shows nothing.
type Question struct {
	// Name and Bytes are the artifact. Both must be those of a subject, unless
	// ByDigest says that the digest is the name, as in a registry.
	Name     string
	Bytes    digest.Set
	ByDigest bool
	// Provenance is verified provenance. Without it, Unsigned may be provenance
	// that nobody signed: it shows that there is one, and no more.
	Provenance verify.Evidence
	Unsigned   intoto.Statement
	// Source is a verified verification summary of the source revision.
	Source verify.Evidence
	// Rebuilds are verified provenances of others who built the same.
	Rebuilds []verify.Evidence
	// Declared is what a policy declares where no tool can look.
	Declared []Declaration
}

// Declaration is a human claim that a requirement is met. It is shown as one.
type Declaration struct {
	Requirement string
	By          string
	Evidence    digest.Digest
}

// testimony is what a verified statement says and who said it.
// [verify.Evidence] is the only one outside of tests.
type testimony interface {
	signed
	IsZero() bool
	Statement() intoto.Statement
	Bundle() digest.Digest
}

// signed says who signed: an identity, or a key.
type signed interface {
	Identity() identity.Identity
	Key() digest.Digest
}

// question is [Question] over testimonies.
type question struct {
	Question
	provenance testimony
	source     testimony
	rebuilds   []testimony
}

// Judge answers every requirement. An error means that there is no answer:
// the question has no artifact, or a statement is not what it should be.
func (t Trust) Judge(q Question) (Report, error) {
	inner := question{Question: q, provenance: q.Provenance, source: q.Source}
	for _, r := range q.Rebuilds {
		inner.rebuilds = append(inner.rebuilds, r)
	}
	return t.judge(inner)
}

func (t Trust) judge(q question) (Report, error) {
	if q.Bytes.IsZero() || (q.Name == "" && !q.ByDigest) {
		return Report{}, verdict.Refuse(verdict.NotBound, "artifact", "no artifact was given to judge")
	}
	f, err := t.gather(q)
	if err != nil {
		return Report{}, err
	}
	r := Report{Artifact: q.Name, Bytes: q.Bytes.Map(), Builder: f.claim.Builder.ID, Signer: f.signer}
	all := requirements()
	r.Answers = make([]Answer, 0, len(all))
	for _, req := range all {
		a := req.ask(f)
		a.Track, a.Requirement, a.Title, a.Level, a.Optional = req.track, req.id, req.title, req.level, req.optional
		if d, ok := f.declared[req.id]; ok && a.State == NotShown {
			a = a.declaredBy(d)
		}
		r.Answers = append(r.Answers, a)
	}
	r.Levels = levelsOf(r.Answers)
	return r, nil
}

// gather turns what was given into facts, each counted only if it speaks of
// this artifact.
func (t Trust) gather(q question) (*facts, error) {
	f := &facts{declared: map[string]Declaration{}}
	if err := f.declare(q.Declared); err != nil {
		return nil, err
	}
	statement := q.Unsigned
	if !q.provenance.IsZero() {
		statement = q.provenance.Statement()
		f.signed, f.signer = true, signerOf(q.provenance)
		f.evidence = []digest.Digest{q.provenance.Bundle()}
	}
	if statement.IsZero() {
		return f, nil
	}
	claim, err := provenance.Read(statement)
	if err != nil {
		return nil, err
	}
	f.claim, f.given, f.lint = claim, true, provenance.LintPredicate(claim)
	f.exists = q.binds(statement)
	if f.signed && f.exists {
		f.trust(t, q.provenance)
	}
	if err := f.judgeSource(t, q.source); err != nil {
		return nil, err
	}
	return f, f.countRebuilds(t, q)
}

// binds reports whether a statement speaks of the artifact.
func (q question) binds(s intoto.Statement) bool {
	if q.ByDigest {
		return s.Binds(q.Bytes)
	}
	return s.Names(q.Name, q.Bytes)
}

// Suppose answers every requirement as if an identity had signed the statement
// in the place of the question's provenance. It is for rehearsing a policy
// with made-up statements: nobody verified anything.
func (t Trust) Suppose(q Question, who identity.Identity, said intoto.Statement) (Report, error) {
	return t.judge(question{Question: q, provenance: supposed{who, said}, source: q.Source})
}

// supposed is a statement in somebody's mouth.
type supposed struct {
	who  identity.Identity
	said intoto.Statement
}

func (s supposed) Identity() identity.Identity { return s.who }
func (s supposed) Key() digest.Digest          { return digest.Digest{} }
func (s supposed) IsZero() bool                { return s.said.IsZero() }
func (s supposed) Statement() intoto.Statement { return s.said }
func (s supposed) Bundle() digest.Digest       { return digest.Of(digest.SHA256, s.said.Raw()) }
