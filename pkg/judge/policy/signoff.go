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

// signoff says where a sign-off is asked for, and how old it may be.
type signoff struct {
	stages []Stage
	age    time.Duration // zero: as old as it says itself
	// template is what the documents must have been held against; zero leaves it
	// to the role.
	template digest.Digest
	// mode is how much it counts; empty is required.
	mode Mode
}

// SignedRelease is the release that a sign-off must be of.
type SignedRelease struct {
	Config digest.Digest // sha256 of its release.yaml, which provenance names too
	Commit string
	// Milestone is that of its version, see [MilestoneOf]: one commit can be
	// released in two of them.
	Milestone string
}

// MilestoneOf is the milestone that a version belongs to: v1.37 of v1.37.2, and
// of its candidates. It is empty of the zero version.
func MilestoneOf(v version.Version) string {
	if v.IsZero() {
		return ""
	}
	return fmt.Sprintf("v%d.%d", v.Major(), v.Minor())
}

// signoffSlack is how far apart the time of the checks and that of the
// signature may be: one is told, the other proven.
const signoffSlack = time.Hour

// NeedsSignoff is how much it counts that a release has a sign-off at a stage.
func (p Policy) NeedsSignoff(stage Stage) Mode {
	switch {
	case !slices.Contains(p.signoff.stages, stage):
		return Off
	case p.signoff.mode != "":
		return p.signoff.mode
	}
	return Require
}

// IsSignoff reports whether evidence is a sign-off, or its summary, by the role
// that signs those, of a policy that asks for one somewhere.
func (p Policy) IsSignoff(e verify.Evidence) bool {
	if len(p.signoff.stages) == 0 || e.Kind() != releasesignoff.PredicateType && e.Kind() != releasesignoff.SVRType {
		return false
	}
	f := FactOf(e)
	return p.actors.acts(&f, Signoffs, &Question{Subject: releasesignoff.Name}) == nil
}

// Signoff judges a sign-off: by whom, of which release.yaml and commit, and
// whether it still stands. The zero evidence is none.
func (p Policy) Signoff(e verify.Evidence, of SignedRelease, now time.Time) (verdict.Proof, error) {
	if e.IsZero() {
		return verdict.Proof{}, verdict.Refuse(verdict.SignoffMissing, releasesignoff.Name, "nobody signed off the release")
	}
	f := FactOf(e)
	return (&matter{policy: &p, q: Question{Subject: releasesignoff.Name}}).signedOff(&f, of, now)
}

func (m *matter) signedOff(f *Fact, of SignedRelease, now time.Time) (verdict.Proof, error) {
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
	case of.Config.IsZero() || !x.Release.SHA256.Equal(of.Config):
		return verdict.Proof{}, differ(verdict.SignoffOther, "it signs off another release.yaml than the release was built from", of.Config.String(), x.Release.SHA256.String())
	case x.Source.Commit != of.Commit:
		return verdict.Proof{}, differ(verdict.SignoffOther, "it signs off another commit than the release was built from", of.Commit, x.Source.Commit)
	case of.Milestone == "" || x.Milestone != of.Milestone:
		return verdict.Proof{}, differ(verdict.SignoffOther, "it signs off another milestone than that of the version", of.Milestone, x.Milestone)
	case !want.template.IsZero() && !x.Template.Digest.Equal(want.template):
		return verdict.Proof{}, differ(verdict.SignoffOther, "the documents were held against another template than the policy names", want.template.String(), x.Template.Digest.String())
	case apart > signoffSlack:
		return verdict.Proof{}, differ(verdict.SignoffExpired, "it says that it was checked at another time than it was signed", at(f.signedAt), at(x.Checked))
	case !now.Before(x.Ends()):
		return verdict.Proof{}, differ(verdict.SignoffExpired, "it, or an exception that it rests on, has run out", "one that stands at "+at(now), at(x.Ends()))
	case want.age > 0 && now.Sub(x.Checked) > want.age:
		return verdict.Proof{}, differ(verdict.SignoffExpired, "it was checked too long ago", fmt.Sprintf("at most %s ago", want.age), at(x.Checked))
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
		return l.fail(codeEmpty, path, "empty; then no sign-off is ever asked for")
	case len(l.policy.actors.roles[Signoffs]) == 0:
		return l.fail(codeEmpty, at("signoff"), "a sign-off is asked for, and nobody has the role signoff")
	}
	for n, stage := range l.Signoff.Stages {
		if !slices.Contains(stages(), stage) || slices.Contains(l.Signoff.Stages[:n], stage) {
			return l.fail(codeValue, append(path, n), "%q is not staging or release, or stands twice", stage)
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

// explain says in plain words what is asked, "" for nothing.
func (s signoff) explain() string {
	if len(s.stages) == 0 {
		return ""
	}
	text := fmt.Sprintf("somebody with the role signoff signed off this very release.yaml, commit and milestone, at stage %s: required (SIGNOFF_MISSING, SIGNOFF_OTHER_RELEASE)", list(s.stages))
	if s.age > 0 {
		text += fmt.Sprintf(", at most %s ago", s.age)
	}
	if !s.template.IsZero() {
		text += fmt.Sprintf(", with documents held against the template %s", s.template)
	}
	return text + "; it has not run out (SIGNOFF_EXPIRED)"
}

// caseSignoff is the class of a case that is about a sign-off.
const caseSignoff plan.Class = "signoff"

// rehearseSignoff answers a case about a sign-off: its text is that of
// release.yaml. It is nil for a case about anything else, and of a policy that
// asks for none.
func (m *matter) rehearseSignoff() []ruling {
	q := m.q
	if q.Class != caseSignoff || m.policy.NeedsSignoff(q.Stage) == Off {
		return nil
	}
	var err error = verdict.Refuse(verdict.SignoffMissing, releasesignoff.Name, "nobody signed off the release")
	about := &matter{policy: m.policy, q: Question{Subject: releasesignoff.Name}}
	v, _ := version.Parse(q.Version) // one that cannot be read has no milestone, and no sign-off
	for _, f := range m.facts {
		if _, err = about.signedOff(f, SignedRelease{q.Bytes.SHA256, q.Commit, MilestoneOf(v)}, q.At); err == nil {
			break
		}
	}
	return []ruling{{item{name: string(caseSignoff), mode: Require}, answer{met: err == nil, err: err}}}
}
