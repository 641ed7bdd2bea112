package policy

import (
	"errors"
	"slices"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// kindBlob is what evidence calls a plain signature over bytes.
const kindBlob = "blob"

// clause asks one thing of one fact.
type clause func(*matter, *Fact) error

// some is met when one fact satisfies every clause.
type some struct {
	role    Role
	absent  verdict.Code // what it is called when there is no such fact
	what    string
	check   Check
	clauses []asked // the first is of the kind
}

// asked is a clause in its place. One that lasts looks at nothing but what a
// [circumstance] names; once all that last are met, they need not be asked
// about every artifact.
type asked struct {
	clause
	lasts bool
}

func lasting(c clause) asked  { return asked{c, true} }
func fleeting(c clause) asked { return asked{clause: c} }

func (s *some) judge(m *matter) answer {
	best := answer{}
	for _, f := range m.facts {
		passed, err := s.ask(m, f)
		if err == nil {
			return answer{met: true, proofs: []verdict.Proof{f.proof(m.q.Subject, s.role)}}
		}
		if passed > best.near {
			best = answer{near: passed, err: err}
		}
	}
	switch {
	case best.near > 0: // something of this kind is there, and falls short
	case m.q.Why[s.check] != nil:
		best.err = m.q.Why[s.check]
	default:
		best.err = refuse(nil, func() verdict.Finding {
			return verdict.Find(s.absent, m.q.Subject, "there is no evidence that is %s", s.what)
		})
	}
	return best
}

func (s *some) ask(m *matter, f *Fact) (passed int, err error) {
	if f.IsZero() {
		return 0, verdict.Refuse(s.absent, m.q.Subject, "a fact that says nothing")
	}
	var known circumstance
	stands := false
	if f.memory != nil {
		known = m.circumstance(s, f)
		stands = f.memory.has(known)
	}
	for i, c := range s.clauses {
		if c.lasts && stands {
			continue
		}
		if err := c.clause(m, f); err != nil {
			return i, err
		}
	}
	if !stands {
		f.memory.keep(known)
	}
	return len(s.clauses), nil
}

// refuse says no, with the fact that it speaks of, if there is one.
func refuse(f *Fact, find func() verdict.Finding) error { return &refusal{f, find} }

// refusal is a no whose words are made when somebody wants to read them. The
// probe counts on many a no, and reads none.
type refusal struct {
	fact *Fact
	find func() verdict.Finding
}

func (r *refusal) said() error {
	if r.fact == nil || r.fact.IsZero() {
		return &verdict.Error{Finding: r.find()}
	}
	return &verdict.Error{Finding: r.find().Citing(r.fact.bundle)}
}

func (r *refusal) Error() string { return r.said().Error() }
func (r *refusal) Unwrap() error { return r.said() }

// say puts a refusal into words, and leaves every other error as it is.
func say(err error) error {
	if err == nil {
		return nil
	}
	var said *verdict.Error
	if errors.As(err, &said) {
		return said
	}
	return err
}

// ofKind asks what the fact is.
func ofKind(kinds ...string) clause {
	return func(m *matter, f *Fact) error {
		if !slices.Contains(kinds, f.kind) {
			return refuse(f, func() verdict.Finding {
				return verdict.Find(verdict.PredicateType, m.q.Subject, "the evidence says something else").Differ(kinds[0], f.kind)
			})
		}
		return nil
	}
}

func (f *Fact) signer() string {
	if !f.key.IsZero() {
		return "key " + f.key.String()
	}
	return f.who.String()
}

// bound asks whether the fact is of these very bytes.
func bound(m *matter, f *Fact) error {
	if m.binds(f) {
		return nil
	}
	return refuse(f, func() verdict.Finding {
		return verdict.Find(verdict.NotBound, m.q.Subject, "the evidence is genuine, but not of this artifact").Differ(m.q.Bytes.SHA256.String(), subjectOf(f, m.q.Subject))
	})
}

// binds holds name and bytes against the fact. A signature of an image gives
// no name, and where the digest is the name there is no other.
func (m *matter) binds(f *Fact) bool {
	if m.q.ByDigest || f.kind == intoto.CosignSignature || f.kind == verify.KindImage {
		return f.coversBytes(m.q.Bytes.SHA256)
	}
	return f.covers(m.q.Subject, m.q.Bytes)
}

func subjectOf(f *Fact, name string) string {
	for _, s := range f.said.Subjects() {
		if s.Name == name {
			return s.Digests.SHA256.String()
		}
	}
	return "no subject of this name"
}

// agrees refuses provenance that gives the artifact's name to other bytes,
// where several builders must have made the same.
func agrees(m *matter, f *Fact) error {
	if m.policy.counts.builders == 1 || m.binds(f) {
		return nil
	}
	if got := subjectOf(f, m.q.Subject); got != "no subject of this name" {
		return refuse(f, func() verdict.Finding {
			return verdict.Find(verdict.RebuildMismatch, m.q.Subject, "another builder made other bytes of it").Differ(m.q.Bytes.SHA256.String(), got)
		})
	}
	return nil
}

// ofBuilder asks whether provenance is the one builder's that is meant.
func ofBuilder(id string) clause {
	return func(m *matter, f *Fact) error {
		claim, err := f.claim()
		if err != nil || claim.Builder.ID == id {
			return err
		}
		return refuse(f, func() verdict.Finding {
			return verdict.Find(verdict.Builder, m.q.Subject, "built by another builder").Differ(id, claim.Builder.ID)
		})
	}
}

// reaches asks for a level of the Build track.
func reaches(level int) clause {
	return func(m *matter, f *Fact) error {
		report, err := f.level(m)
		if err != nil {
			return err
		}
		report.Artifact = m.q.Subject
		return report.Meet(slsa.Demand{Track: slsa.Build, Level: level})
	}
}

// ofCommit asks for the commit that the manifest names.
func ofCommit(m *matter, f *Fact) error {
	claim, err := f.claim()
	if err != nil || m.q.Commit == "" {
		return err
	}
	if got := claim.Source.Commit; got != m.q.Commit {
		return refuse(f, func() verdict.Finding {
			return verdict.Find(verdict.SourceCommit, m.q.Subject, "built from another commit than the manifest names").Differ(m.q.Commit, got)
		})
	}
	return nil
}

// described is met when the SBOM that came with the artifact describes its
// bytes, and leaves nothing of them out where the whole is asked for.
type described struct{ whole bool }

func (r described) judge(m *matter) answer {
	switch {
	case m.q.Why[SBOM] != nil:
		return answer{err: m.q.Why[SBOM]}
	case m.q.SBOM.IsZero():
		return answer{err: refuse(nil, func() verdict.Finding {
			return verdict.Find(verdict.NoSBOM, m.q.Subject, "no SBOM came with it")
		})}
	case !m.q.SBOM.Equal(m.q.Bytes.SHA256):
		return answer{near: 1, err: refuse(nil, func() verdict.Finding {
			return verdict.Find(verdict.SBOMSubject, m.q.Subject, "its SBOM describes other bytes").
				Differ(m.q.Bytes.SHA256.String(), m.q.SBOM.String())
		})}
	case r.whole && len(m.q.Omitted) > 0:
		return answer{near: 2, err: refuse(nil, func() verdict.Finding {
			return verdict.Find(verdict.SBOMIncomplete, m.q.Subject, "its SBOM leaves out %s, and the policy asks for all: %.500q", plural.Of(len(m.q.Omitted), "part"), m.q.Omitted[0])
		})}
	}
	return answer{met: true}
}

// summary is a verifier whose word counts.
type summary struct {
	fileSummary
	pinned  digest.Digest
	age     time.Duration
	signers []Signer // nil: whoever has the role
}

// spokenForBy asks whether the signer may speak for the verifier: the two count
// as a pair.
func (s summary) spokenForBy(m *matter, f *Fact) error {
	switch {
	case s.signers == nil:
		return nil
	case anyOf(s.signers, f.who):
		return acting(f, s.signers, &m.q)
	}
	return refuse(f, func() verdict.Finding {
		return verdict.Find(verdict.VSAVerifier, m.q.Subject, "%s may not speak for the verifier %s", f.signer(), s.Verifier).Differ(s.signers[0].String(), f.signer())
	})
}

// answers holds a verification summary against what is asked of it.
func (s summary) answers(m *matter, f *Fact) error {
	said, err := vsa.Parse(f.said)
	if err != nil {
		return err
	}
	if err := said.Answer(vsa.Question{
		VerifierID: s.Verifier, ResourceURI: m.policy.build.fill(s.Resource, m.q.Version), PolicyURI: s.Policy.URI, Policy: s.pinned,
		Levels: s.Levels, Now: m.q.At, MaxAge: s.age,
	}); err != nil {
		return err
	}
	return s.takenBack(m, said)
}

// takenBack refuses a yes where the same verifier says no of the same artifact
// in the same place, and not before: whoever shows both must not choose.
func (s summary) takenBack(m *matter, yes vsa.Summary) error {
	for _, f := range m.facts {
		if f.IsZero() || f.kind != vsa.PredicateType || byRole(Verifier)(m, f) != nil || s.spokenForBy(m, f) != nil || !m.binds(f) {
			continue
		}
		no, err := vsa.Parse(f.said)
		if err == nil && no.Result == vsa.Failed && no.Verifier.ID == yes.Verifier.ID && no.ResourceURI == yes.ResourceURI && !no.Verified.Before(yes.Verified) {
			return refuse(f, func() verdict.Finding {
				return verdict.Find(verdict.VSAResult, m.q.Subject, "the verifier said no after it had said yes").
					Differ("no summary that is newer than "+yes.Verified.Format(time.RFC3339), no.Verified.Format(time.RFC3339))
			})
		}
	}
	return nil
}

// rule is a rule of the policy's own.
type rule struct {
	name    string
	classes []plan.Class
	holds   Expression
}

func (r rule) judge(m *matter) answer {
	holds, err := r.holds.Holds(m.view())
	switch {
	case err != nil:
		return answer{err: verdict.Refuse(verdict.PolicyRule, m.q.Subject, "rule %q cannot be answered: %v", r.name, err)}
	case !holds:
		return answer{err: verdict.Refuse(verdict.PolicyRule, m.q.Subject, "rule %q does not hold", r.name)}
	}
	return answer{met: true}
}

// compile turns the modes of a cell into rules.
func (l *loader) compile(d *demand, class plan.Class, path []any) error {
	rules := map[Check]func() (Rule, error){
		Provenance: func() (Rule, error) { return l.provenance(d.level) },
		Signature:  func() (Rule, error) { return signature(class), nil },
		SBOM:       func() (Rule, error) { return described{d.whole}, nil },
		Summary:    l.summary,
	}
	for _, check := range ChecksOf(class) {
		if d.modes[check] == Off {
			continue
		}
		made, err := rules[check]()
		if err != nil {
			return l.fail(codeEmpty, append(path, "checks", string(check)), "%v", err)
		}
		d.items = append(d.items, item{string(check), d.modes[check], made})
	}
	for _, r := range l.policy.rules {
		if slices.Contains(r.classes, class) {
			d.items = append(d.items, item{"rule " + r.name, Require, r})
		}
	}
	return nil
}

func (l *loader) provenance(level int) (Rule, error) {
	var builders []Rule
	for _, b := range l.policy.actors.builders {
		s := &some{role: Builder, absent: verdict.NoProvenance, what: "provenance", check: Provenance, clauses: []asked{
			lasting(ofKind(provenance.PredicateType, provenance.PredicateTypeV02, provenance.PredicateTypeV01)),
			lasting(byRole(Builder)), lasting(ofBuilder(b.id)), fleeting(agrees), fleeting(bound),
			lasting(fromSource), lasting(ofCommit), lasting(ofType), lasting(withParameters),
		}}
		if level > 0 {
			s.clauses = append(s.clauses, lasting(reaches(level)))
		}
		builders = append(builders, s)
	}
	return AtLeast(l.policy.counts.builders, builders...)
}

func signature(class plan.Class) Rule {
	kinds := []string{kindBlob}
	if class == plan.Image || class == plan.ImageChild {
		kinds = []string{intoto.CosignSignature, verify.KindImage}
	}
	return &some{role: Release, absent: verdict.Unsigned, what: "the release identity's signature", check: Signature,
		clauses: []asked{fleeting(asSignature(kinds)), lasting(byRole(Release)), fleeting(bound)}}
}

// asSignature asks for a signature of the artifact's own, or for the manifest where
// that has been judged to be the signature of all that it lists.
func asSignature(kinds []string) clause {
	own, sealed := ofKind(kinds...), ofKind(releasemanifest.PredicateType)
	return func(m *matter, f *Fact) error {
		if m.q.Sealed {
			return sealed(m, f)
		}
		return own(m, f)
	}
}

func (l *loader) summary() (Rule, error) { return summarized(l.policy.summaries, 0) }
