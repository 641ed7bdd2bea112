// Package slsa determines which SLSA level an artifact has reached, and what is
// missing for the next.
//
// Every requirement gets an [Answer]: met, not met, declared, or not shown, with
// the evidence or the name of what is missing. A level is reached when every
// requirement up to it is met, or declared as far as the policy lets
// declarations count; nothing is assumed. A requirement that is not met can be
// shown as not implementable; that counts towards no level. The statements of a builder
// about itself count only if [Trust], which the verifier chooses, allows the
// signer to sign for that builder.
//
//	trust, err := slsa.NewTrust(pairs, verifiers)
//	report, err := trust.Judge(slsa.Question{Name: name, Bytes: digests, Provenance: evidence})
//	fmt.Print(report)            // a table
//	report.Level(slsa.Build)     // 3
//
// An artifact made of others has no higher level than those: see [Minimum].
//
// There are three tracks: [V01], the four levels of SLSA v0.1 that KEP-3027
// uses; [Build] and [Source], the tracks of SLSA v1.2.
//
// The package verifies no signatures and reads no clock: the caller checks
// whether a source summary is recent enough.
package slsa

import (
	"maps"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Question is one artifact with everything known about its origin. Omitted
// fields meet no requirement.
type Question struct {
	// Name and Bytes identify the artifact. Both must match a subject, unless
	// ByDigest says that the artifact is named by its digest, as in a registry.
	Name     string
	Bytes    digest.Set
	ByDigest bool
	// Provenance is verified provenance. Without it, Unsigned may be provenance
	// without a signature, which shows only that there is one.
	Provenance verify.Evidence
	Unsigned   intoto.Statement
	// Sources are verified verification summaries of source revisions. The one
	// that shows most about the revision counts; of those by one verifier only
	// the latest, because it may have taken back an earlier one.
	Sources []verify.Evidence
	// NoSource says why another summary at hand is none of the Sources; empty
	// if there was none.
	NoSource string
	// Rebuilt are statements of as many rebuilders as the policy asks for, that
	// they built the same bytes again from this provenance.
	Rebuilt  []digest.Digest
	supposed []supposed // see [Question.SupposeSource]
	// Commit of Repository is judged instead of an artifact, by the Source track
	// alone. Clone says how a clone shows level 1.
	Repository, Commit, Clone string
	// Declared lists what a policy declares where a program cannot check.
	Declared []Declaration
}

// Declaration is a claim by a person that a requirement is met, or that it is
// not implementable. It is shown as such.
type Declaration struct {
	Requirement string
	By          string
	Reason      string
	Until       time.Time
	// Lacks says what is missing for the declaration to count, for example
	// because Until has passed; empty if it counts.
	Lacks string
	// About is the repository or builder that provenance must name for the
	// declaration to count; empty if it is about everything that is judged.
	About string
	// Signer signed the declaration; empty if the policy itself makes it.
	Signer string
	// NotImplementable says that nobody can meet the requirement, and why. It
	// counts towards no level.
	NotImplementable bool
	// UpTo is the highest level of [V01] that can be reached with it.
	UpTo int
	// Evidence is the document that makes the declaration, such as the policy.
	Evidence digest.Digest
}

// testimony is a verified statement and its signer. Outside of tests it is
// always a [verify.Evidence].
type testimony interface {
	signed
	IsZero() bool
	Statement() intoto.Statement
	Bundle() digest.Digest
}

// signed has a signer: an identity, or a key.
type signed interface {
	Identity() identity.Identity
	Key() digest.Digest
}

// question is [Question] over testimonies.
type question struct {
	Question
	provenance testimony
	sources    []testimony
}

// Judge answers every requirement. An error means that no answer is possible:
// the question has no artifact, or a statement is malformed.
func (t Trust) Judge(q Question) (Report, error) {
	return t.judge(question{q, q.Provenance, testimonies(q.Sources)})
}

func testimonies(list []verify.Evidence) []testimony {
	return slice.Map(list, func(e verify.Evidence) testimony { return e })
}

func (t Trust) judge(q question) (Report, error) {
	if q.Commit == "" && (q.Bytes.IsZero() || q.Name == "" && !q.ByDigest) {
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
		if req.track == V01 {
			a = a.declared(f)
		}
		r.Answers = append(r.Answers, a)
	}
	for _, id := range slices.Sorted(maps.Keys(f.declared)) {
		if isControl(id) {
			r.Answers = append(r.Answers, Answer{Track: Controls, Requirement: id, Why: "missing: a declaration"}.declared(f))
		}
	}
	r.Levels = levelsOf(r.Answers, f.level())
	return r, nil
}

// gather turns the question into facts. A statement counts only if it covers
// this artifact.
func (t Trust) gather(q question) (*facts, error) {
	f := &facts{declared: map[string][]Declaration{}, rebuilt: q.Rebuilt}
	if err := f.declare(q.Declared); err != nil {
		return nil, err
	}
	if q.Commit != "" { // the caller names it, in place of a builder
		f.pair.Level, f.source.clone = 2, q.Clone
		f.claim.Source.Repository, f.claim.Source.Commit = q.Repository, q.Commit
		return f, f.judgeSources(t, q)
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
		f.pair, f.known = t.pair(q.provenance, f.claim.Builder.ID)
	}
	return f, f.judgeSources(t, q)
}

// binds reports whether a statement covers the artifact.
func (q question) binds(s intoto.Statement) bool {
	if q.ByDigest {
		return s.Binds(q.Bytes)
	}
	return s.Names(q.Name, q.Bytes)
}

// Suppose answers every requirement as if an identity had signed the statement,
// in place of the question's provenance. It is for test cases of a policy:
// nothing is verified.
func (t Trust) Suppose(q Question, who identity.Identity, said intoto.Statement) (Report, error) {
	sources := testimonies(q.Sources)
	for _, s := range q.supposed {
		sources = append(sources, s)
	}
	return t.judge(question{Question: q, provenance: supposed{who, said}, sources: sources})
}

// SupposeSource is the question with one more summary of the source, which an
// identity is assumed to have signed. Only [Trust.Suppose] reads it.
func (q Question) SupposeSource(who identity.Identity, said intoto.Statement) Question {
	q.supposed = append(slices.Clone(q.supposed), supposed{who, said})
	return q
}

// supposed is a statement with an assumed signer.
type supposed struct {
	who  identity.Identity
	said intoto.Statement
}

func (s supposed) Identity() identity.Identity { return s.who }
func (s supposed) Key() digest.Digest          { return digest.Digest{} }
func (s supposed) IsZero() bool                { return s.said.IsZero() }
func (s supposed) Statement() intoto.Statement { return s.said }
func (s supposed) Bundle() digest.Digest       { return digest.Of(digest.SHA256, s.said.Raw()) }
