package policy

import (
	"fmt"
	"slices"
	"time"

	releasesignoff "github.com/waybill-release/waybill/attestations/release-signoff/v1"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// signoff says at which stages a sign-off is required, and how old it may be.
type signoff struct {
	stages []Stage
	age    time.Duration // zero: until it expires
	// template is what the documents must have been checked against; zero
	// accepts every template.
	template digest.Digest
	// mode is the mode of the requirement; empty means required.
	mode Mode
}

// SignedRelease is the release that a sign-off must be for.
type SignedRelease struct {
	Config digest.Digest // sha256 of its release.yaml, which provenance names too
	Commit string
	// Milestone is the one of its version, see [MilestoneOf]: one commit can be
	// released in two milestones.
	Milestone string
}

// MilestoneOf is the milestone of a version: v1.37 for v1.37.2 and its
// candidates. It is empty for the zero version.
func MilestoneOf(v version.Version) string {
	if v.IsZero() {
		return ""
	}
	return fmt.Sprintf("v%d.%d", v.Major(), v.Minor())
}

// signoffSlack is the largest difference between the claimed time of the checks
// and the proven time of the signature.
const signoffSlack = time.Hour

// NeedsSignoff is the mode of the requirement that a release has a sign-off at
// a stage.
func (p Policy) NeedsSignoff(stage Stage) Mode {
	switch {
	case !slices.Contains(p.signoff.stages, stage):
		return Off
	case p.signoff.mode != "":
		return p.signoff.mode
	}
	return Require
}

// IsSignoff reports whether evidence is a sign-off, or its summary, signed in
// the sign-off role of a policy that requires sign-offs.
func (p Policy) IsSignoff(e verify.Evidence) bool {
	if len(p.signoff.stages) == 0 || e.Kind() != releasesignoff.PredicateType && e.Kind() != releasesignoff.SVRType {
		return false
	}
	f := factOf(e)
	return p.actors.acts(&f, Signoffs, &Question{Subject: releasesignoff.Name}) == nil
}

// Signoff checks a sign-off: its signer, the release.yaml and commit that it
// covers, and its expiry. The zero evidence means that there is none.
func (p Policy) Signoff(e verify.Evidence, of SignedRelease, now time.Time) (verdict.Proof, error) {
	if e.IsZero() {
		return verdict.Proof{}, verdict.Refuse(verdict.SignoffMissing, releasesignoff.Name, "the release has no sign-off")
	}
	f := factOf(e)
	return (&judgement{policy: &p, q: Question{Subject: releasesignoff.Name}}).signedOff(&f, of, now)
}

func (m *judgement) signedOff(f *fact, of SignedRelease, now time.Time) (verdict.Proof, error) {
	want := &m.policy.signoff
	for _, c := range []clause{ofKind(releasesignoff.PredicateType), byRole(Signoffs)} {
		if err := c(m, f); err != nil {
			return verdict.Proof{}, say(err)
		}
	}
	x, err := releasesignoff.Parse(f.said)
	if err != nil {
		return verdict.Proof{}, err
	}
	differ := func(code verdict.Code, message, want, got string) error {
		return &verdict.Error{Finding: verdict.Find(code, releasesignoff.Name, "%s", message).Differ(want, got).Citing(f.bundle)}
	}
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	switch apart := f.signedAt.Sub(x.Checked).Abs(); {
	case !x.Release.SHA256.Equal(of.Config): // zero equals nothing
		return verdict.Proof{}, differ(verdict.SignoffOther, "the sign-off is for another release.yaml than the one built", of.Config.String(), x.Release.SHA256.String())
	case x.Source.Commit != of.Commit:
		return verdict.Proof{}, differ(verdict.SignoffOther, "the sign-off is for another commit than the one built", of.Commit, x.Source.Commit)
	case of.Milestone == "" || x.Milestone != of.Milestone:
		return verdict.Proof{}, differ(verdict.SignoffOther, "the sign-off is for another milestone than that of the version", of.Milestone, x.Milestone)
	case !want.template.IsZero() && !x.Template.Digest.Equal(want.template):
		return verdict.Proof{}, differ(verdict.SignoffOther, "the documents were checked against another template than the policy requires", want.template.String(), x.Template.Digest.String())
	case apart > signoffSlack:
		return verdict.Proof{}, differ(verdict.SignoffExpired, "the time of the checks is too far from the time of the signature", at(f.signedAt), at(x.Checked))
	case !now.Before(x.Ends()):
		return verdict.Proof{}, differ(verdict.SignoffExpired, "the sign-off, or an exception in it, has expired", "one that is valid at "+at(now), at(x.Ends()))
	case want.age > 0 && now.Sub(x.Checked) > want.age:
		return verdict.Proof{}, differ(verdict.SignoffExpired, "the release was checked too long ago", fmt.Sprintf("at most %s ago", want.age), at(x.Checked))
	}
	return f.proof(releasesignoff.Name, Signoffs), nil
}

func (l *loader) loadSignoff() (err error) {
	if l.Signoff == nil {
		return nil
	}
	path := at("signoff", "stages")
	switch {
	case len(l.Signoff.Stages) == 0:
		return l.fail(codeEmpty, path, "empty, so no sign-off is required; list stages or remove signoff")
	case len(l.policy.actors.roles[Signoffs]) == 0:
		return l.fail(codeEmpty, at("signoff"), "a sign-off is required, but no identity has the role signoff; add one")
	}
	for n, stage := range l.Signoff.Stages {
		if !slices.Contains(stages(), stage) || slices.Contains(l.Signoff.Stages[:n], stage) {
			return l.fail(codeValue, append(path, n), "%q is not staging or release, or is listed twice", stage)
		}
	}
	l.policy.signoff.stages = l.Signoff.Stages
	if t := l.Signoff.Template; t != nil {
		if l.policy.signoff.template, err = digest.Parse("sha256:" + t.SHA256); err != nil {
			return l.fail(codeValue, at("signoff", "template", "sha256"), "%v", err)
		}
	}
	if l.Signoff.MaxAge != "" {
		l.policy.signoff.age, err = l.duration(l.Signoff.MaxAge, at("signoff", "maxAge"))
	}
	return err
}

// explain describes the requirement in plain words, "" if there is none.
func (s signoff) explain() string {
	if len(s.stages) == 0 {
		return ""
	}
	text := fmt.Sprintf("a sign-off of this release.yaml, commit and milestone by the role signoff is required at stage %s (SIGNOFF_MISSING, SIGNOFF_OTHER_RELEASE)", list(s.stages))
	if s.age > 0 {
		text += fmt.Sprintf(", at most %s ago", s.age)
	}
	if !s.template.IsZero() {
		text += fmt.Sprintf(", with documents checked against the template %s", s.template)
	}
	return text + "; it must not be expired (SIGNOFF_EXPIRED)"
}

// caseSignoff is the class of a test case about a sign-off.
const caseSignoff plan.Class = "signoff"

// rehearseSignoff evaluates a test case about a sign-off, whose text is that of
// release.yaml. It returns nil for other cases, and for a policy that requires
// no sign-off.
func (m *judgement) rehearseSignoff() []ruling {
	q := m.q
	if q.Class != caseSignoff || m.policy.NeedsSignoff(q.Stage) == Off {
		return nil
	}
	var err error = verdict.Refuse(verdict.SignoffMissing, releasesignoff.Name, "the release has no sign-off")
	about := &judgement{policy: m.policy, q: Question{Subject: releasesignoff.Name}}
	v, _ := version.Parse(q.Version) // an invalid version has no milestone, and no sign-off
	for _, f := range m.facts {
		if _, err = about.signedOff(f, SignedRelease{q.Bytes.SHA256, q.Commit, MilestoneOf(v)}, q.At); err == nil {
			break
		}
	}
	return []ruling{{item{name: string(caseSignoff), mode: Require}, answer{met: err == nil, err: err}}}
}
