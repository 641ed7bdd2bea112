package policy

import (
	"errors"
	"slices"
	"strings"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
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

// kindBlob is the kind of evidence that is a plain signature over bytes.
const kindBlob = "blob"

// clause checks one requirement on one fact.
type clause func(*judgement, *fact) error

// some is met if one fact satisfies every clause.
type some struct {
	role    Role
	absent  verdict.Code // code of the refusal if there is no such fact
	what    string
	check   Check
	clauses []step // the first checks the kind
}

// step is a clause of a rule. The result of a perRelease clause depends only on
// the fact and a [memoKey], so it is not repeated for every artifact.
type step struct {
	clause
	perRelease bool
}

func perRelease(c clause) step  { return step{c, true} }
func perArtifact(c clause) step { return step{clause: c} }

func (s *some) judge(m *judgement) answer {
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
	case best.near > 0: // there is such a fact, but it fails a clause
	case m.q.Why[s.check] != nil:
		best.err = m.q.Why[s.check]
	default:
		best.err = refuse(nil, func() verdict.Finding {
			return verdict.Find(s.absent, m.q.Subject, "no %s was found", s.what)
		})
	}
	return best
}

func (s *some) ask(m *judgement, f *fact) (passed int, err error) {
	if f.IsZero() {
		return 0, verdict.Refuse(s.absent, m.q.Subject, "the fact is empty")
	}
	var known memoKey
	memoized := false
	if f.memory != nil {
		known = memoKey{m.policy, s, m.q.Stage, m.q.Class, m.q.Version, m.q.Commit, m.entire(f)}
		memoized = f.memory.has(known)
	}
	for i, c := range s.clauses {
		if c.perRelease && memoized {
			continue
		}
		if err := c.clause(m, f); err != nil {
			return i, err
		}
	}
	if !memoized {
		f.memory.keep(known)
	}
	return len(s.clauses), nil
}

// refuse returns a refusal that cites a fact, if there is one.
func refuse(f *fact, find func() verdict.Finding) error { return &refusal{f, find} }

// refusal formats its message only when it is read: the vacuity probe causes
// many refusals that are never printed.
type refusal struct {
	fact *fact
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

// say converts a refusal to its *verdict.Error, and returns every other error
// unchanged.
func say(err error) error {
	if err == nil {
		return nil
	}
	if said, is := errors.AsType[*verdict.Error](err); is {
		return said
	}
	return err
}

// ofKind checks the kind of the fact.
func ofKind(kinds ...string) clause {
	return func(m *judgement, f *fact) error {
		if !slices.Contains(kinds, f.kind) {
			return refuse(f, func() verdict.Finding {
				return verdict.Find(verdict.PredicateType, m.q.Subject, "the evidence is of another type").Differ(kinds[0], f.kind)
			})
		}
		return nil
	}
}

func (f *fact) signer() string {
	if !f.key.IsZero() {
		return "key " + f.key.String()
	}
	return f.who.String()
}

// bound checks that the fact covers these very bytes.
func bound(m *judgement, f *fact) error {
	if m.binds(f) {
		return nil
	}
	return refuse(f, func() verdict.Finding {
		return verdict.Find(verdict.NotBound, m.q.Subject, "the evidence is authentic, but for another artifact").Differ(m.q.Bytes.SHA256.String(), subjectOf(f, m.q.Subject))
	})
}

// binds reports whether the fact covers name and bytes. A signature of an image
// has no name, and for an artifact named by its digest only the digest counts.
func (m *judgement) binds(f *fact) bool {
	if m.q.ByDigest || f.kind == intoto.CosignSignature || f.kind == verify.KindImage {
		return f.coversBytes(m.q.Bytes.SHA256)
	}
	return f.covers(m.q.Subject, m.q.Bytes)
}

func subjectOf(f *fact, name string) string {
	for _, s := range f.said.Subjects() {
		if s.Name == name {
			return s.Digests.SHA256.String()
		}
	}
	return "no subject of this name"
}

// agrees refuses provenance with another digest for the artifact's name, if
// several builders must agree.
func agrees(m *judgement, f *fact) error {
	if m.policy.counts.builders == 1 || m.binds(f) {
		return nil
	}
	if got := subjectOf(f, m.q.Subject); got != "no subject of this name" {
		return refuse(f, func() verdict.Finding {
			return verdict.Find(verdict.RebuildMismatch, m.q.Subject, "another builder built different bytes").Differ(m.q.Bytes.SHA256.String(), got)
		})
	}
	return nil
}

// ofBuilder checks that provenance names this builder.
func ofBuilder(id string) clause {
	return func(m *judgement, f *fact) error {
		claim, err := f.claim()
		if err != nil || claim.Builder.ID == id {
			return err
		}
		return refuse(f, func() verdict.Finding {
			return verdict.Find(verdict.Builder, m.q.Subject, "built by another builder").Differ(id, claim.Builder.ID)
		})
	}
}

// reaches checks for a level of a SLSA track.
func reaches(d slsa.Demand) clause {
	return func(m *judgement, f *fact) error {
		report, err := f.level(m)
		if err != nil {
			return err
		}
		report.Artifact = m.q.Subject
		return report.Meet(d)
	}
}

// ofCommit checks that the build used the commit that the manifest names.
func ofCommit(m *judgement, f *fact) error {
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

// described is met if the artifact's SBOM describes its bytes and, where the
// policy requires completeness or a profile, omits nothing and gives its
// elements.
type described struct {
	whole   bool
	profile string
}

func (r described) judge(m *judgement) answer {
	switch {
	case m.q.Why[SBOM] != nil:
		return answer{err: m.q.Why[SBOM]}
	case m.q.SBOM.IsZero():
		return answer{err: refuse(nil, func() verdict.Finding {
			return verdict.Find(verdict.NoSBOM, m.q.Subject, "the artifact has no SBOM")
		})}
	case !m.q.SBOM.Equal(m.q.Bytes.SHA256):
		return answer{near: 1, err: refuse(nil, func() verdict.Finding {
			return verdict.Find(verdict.SBOMSubject, m.q.Subject, "the artifact's SBOM describes other bytes").
				Differ(m.q.Bytes.SHA256.String(), m.q.SBOM.String())
		})}
	case r.whole && len(m.q.Omitted) > 0:
		return answer{near: 2, err: refuse(nil, func() verdict.Finding {
			return verdict.Find(verdict.SBOMIncomplete, m.q.Subject, "the artifact's SBOM must be complete, but omits %s: %.500q", plural.Of(len(m.q.Omitted), "part"), m.q.Omitted[0])
		})}
	}
	if lacks, compared := m.q.Lacks[r.profile]; r.profile != "" && (!compared || len(lacks) > 0) {
		return answer{near: 2, err: refuse(nil, func() verdict.Finding {
			if !compared {
				lacks = []string{"it was not compared"}
			}
			return verdict.Find("SBOM_PROFILE", m.q.Subject, "the artifact's SBOM lacks %s of %s: %.1000s", plural.Of(len(lacks), "element"), r.profile, strings.Join(lacks, "; "))
		})}
	}
	return answer{met: true}
}

// summary is a verifier whose summaries the policy accepts.
type summary struct {
	fileSummary
	pinned  digest.Digest
	age     time.Duration
	signers []allowedSigner // nil: every signer of the role
}

// spokenForBy checks that the signer may sign for the verifier: a summary
// counts only if both match as a pair.
func (s summary) spokenForBy(m *judgement, f *fact) error {
	switch {
	case s.signers == nil:
		return nil
	case anyOf(s.signers, f.who):
		return acting(f, s.signers, &m.q)
	}
	return refuse(f, func() verdict.Finding {
		return verdict.Find(verdict.VSAVerifier, m.q.Subject, "%s may not sign for the verifier %s", f.signer(), s.Verifier).Differ(s.signers[0].String(), f.signer())
	})
}

// answers checks a verification summary against the requirements of the policy.
func (s summary) answers(m *judgement, f *fact) error {
	said, err := vsa.Parse(f.said)
	if err != nil {
		return ofSubject(m.q.Subject, f, err)
	}
	if err := said.Answer(vsa.Question{
		VerifierID: s.Verifier, ResourceURI: s.resource(m, said), PolicyURI: s.Policy.URI,
		Policy: s.pinned, AnyCommit: s.pinned.IsZero(), Levels: s.Levels, Now: m.q.At, MaxAge: s.age,
	}); err != nil {
		return ofSubject(m.q.Subject, f, err)
	}
	return s.takenBack(m, said)
}

// resource is the resource that a summary must name. A registry may serve an
// image below a path of its own, so the name that the summary gives an image may
// be the end of the one by which it was found.
func (s summary) resource(m *judgement, said vsa.Summary) string {
	want := m.policy.build.fill(s.Resource, m.q.Version)
	before, after, is := strings.Cut(want, imageOf)
	if !is {
		return want
	}
	named, starts := strings.CutPrefix(said.ResourceURI, before)
	named, ends := strings.CutSuffix(named, after)
	if starts && ends && strings.HasSuffix("/"+m.q.Image, "/"+named) {
		return said.ResourceURI
	}
	return before + m.q.Image + after
}

// ofSubject names the artifact, and cites the fact, in a refusal that knows only
// the document.
func ofSubject(subject string, f *fact, err error) error {
	found := verdict.FindingOf(subject, err).Citing(f.bundle)
	found.Subject, found.Message = subject, found.Subject+": "+found.Message
	return &verdict.Error{Finding: found, Cause: err}
}

// takenBack refuses a PASSED summary if the same verifier signed FAILED for the
// same artifact and place at the same time or later. Otherwise the presenter of
// both could choose. A verifier that writes one summary for each artifact
// contradicts itself with any FAILED.
func (s summary) takenBack(m *judgement, yes vsa.Summary) error {
	for _, f := range m.facts {
		if f.IsZero() || f.kind != vsa.PredicateType || byRole(Verifier)(m, f) != nil || s.spokenForBy(m, f) != nil || !m.binds(f) {
			continue
		}
		no, err := vsa.Parse(f.said)
		if err == nil && no.Result == vsa.Failed && no.Verifier.ID == yes.Verifier.ID && no.ResourceURI == yes.ResourceURI && (s.pinned.IsZero() || !no.Verified.Before(yes.Verified)) {
			return refuse(f, func() verdict.Finding {
				return verdict.Find(verdict.VSAResult, m.q.Subject, "the verifier signed FAILED beside or after this PASSED summary").
					Differ("no FAILED summary at or after "+yes.Verified.Format(time.RFC3339), no.Verified.Format(time.RFC3339))
			})
		}
	}
	return nil
}

// rule is a custom rule of the policy.
type rule struct {
	name    string
	classes []plan.Class
	holds   Expression
}

func (r rule) judge(m *judgement) answer {
	holds, err := r.holds.Holds(m.view())
	switch {
	case err != nil:
		return answer{err: verdict.Refuse("POLICY_RULE", m.q.Subject, "rule %q cannot be evaluated: %v", r.name, err)}
	case !holds:
		return answer{err: verdict.Refuse("POLICY_RULE", m.q.Subject, "rule %q does not hold", r.name)}
	}
	return answer{met: true}
}

// compile converts the modes of a cell to rules.
func (l *loader) compile(d *demand, class plan.Class, path []any) error {
	rules := map[Check]func() (requirement, error){
		Provenance: func() (requirement, error) { return l.provenance(d.demands()) },
		Signature:  func() (requirement, error) { return signature(class), nil },
		SBOM:       func() (requirement, error) { return described{d.whole, d.profile}, nil },
		Summary:    l.summary,
	}
	for _, check := range checksOf(class) {
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

func (l *loader) provenance(levels []slsa.Demand) (requirement, error) {
	var builders []requirement
	for _, b := range l.policy.actors.builders {
		s := &some{role: Builder, absent: verdict.NoProvenance, what: "provenance", check: Provenance, clauses: []step{
			perRelease(ofKind(provenance.PredicateType, provenance.PredicateTypeV02, provenance.PredicateTypeV01)),
			perRelease(byRole(Builder)), perRelease(ofBuilder(b.id)), perArtifact(agrees), perArtifact(bound),
			perRelease(fromSource), perRelease(ofCommit), perRelease(ofType), perRelease(withParameters),
		}}
		for _, d := range levels {
			s.clauses = append(s.clauses, perRelease(reaches(d)))
		}
		builders = append(builders, s)
	}
	return threshold(l.policy.counts.builders, builders...)
}

func signature(class plan.Class) requirement {
	kinds := []string{kindBlob}
	switch class {
	case plan.Image, plan.ImageChild:
		kinds = []string{intoto.CosignSignature, verify.KindImage}
	case plan.SBOM:
		kinds = []string{sbomlist.PredicateType}
	}
	return &some{role: Release, absent: verdict.Unsigned, what: "signature by the release identity", check: Signature,
		clauses: []step{perArtifact(asSignature(kinds)), perRelease(byRole(Release)), perArtifact(bound)}}
}

// asSignature requires a signature of the artifact itself or, for a sealed
// release, the manifest, which then signs everything that it lists.
func asSignature(kinds []string) clause {
	own, sealed := ofKind(kinds...), ofKind(releasemanifest.PredicateType)
	return func(m *judgement, f *fact) error {
		if m.q.Sealed {
			return sealed(m, f)
		}
		return own(m, f)
	}
}

func (l *loader) summary() (requirement, error) { return summarized(l.policy.summaries, 0) }
