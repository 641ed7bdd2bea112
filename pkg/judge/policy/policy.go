// Package policy says which evidence a release needs, in a file that a release
// manager can read.
//
// A [Policy] lists who may act in which role and when, which builders are
// trusted up to which level and who signs for them, the source, build types and
// parameters that a build may have, which evidence each class of artifact needs
// at each stage, and the places that may contain only the release. Every key is
// known and used. Anything that would make the policy require less than it
// seems to is a load error with line and column: an empty list, an identity in
// two roles, a pattern that matches too much, a class without requirements.
//
//	p, err := policy.Parse(raw, nil)
//	v := p.Decide(evidence, policy.Question{Stage: policy.Published, Class: plan.Binary, …})
//	err := v.Err()
//
// A policy compiles to a small algebra: oneOf and threshold over leaves
// that each check one property of a fact. Facts are made from verified
// evidence; a file of test cases makes other facts to try a policy
// ([Rehearse]), which can never become a Verdict. After a policy accepts, it is
// evaluated again with each required item removed, signed by an unknown
// identity, and about other bytes. If it accepts that too, the policy itself is
// refused (POLICY_VACUOUS).
//
// This package reads no bundles, clock or network.
package policy

import (
	"cmp"
	_ "embed"
	"fmt"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

//go:embed schema.json
var schema []byte

// Schema is the JSON schema of policies, for editors.
func Schema() []byte { return schema }

// Policy is a parsed policy. The zero Policy accepts nothing.
type Policy struct {
	name     string
	digest   digest.Digest
	others   digest.Set // digests that no file has, for the probe
	validity validity
	unsigned bool // accepts artifacts without signed evidence
	byIndex  bool // evidence about an index counts for what it lists

	actors    actors
	build     expectations
	summaries []summary
	inputs    []inputRow // what builds use
	declares  []declares
	counts    thresholds

	cells    map[cell]demand
	vouch    map[cell]requirement // the summary that replaces provenance; nil: none
	rules    []rule
	whole    whole
	signoff  signoff
	rebuilt  rebuilt
	switches switches
}

// validity is which edition of a policy it is, and what it may decide by.
type validity struct {
	sequence int
	lab      bool
	expires  time.Time     // zero: never
	manifest time.Duration // maximum age; zero: no limit
	root     time.Duration // the same of the trust root
	defects  int           // lowest number of the list of known defects
}

// whole lists the requirements for a release as a whole.
type whole struct {
	plan    Mode
	earlier Mode // of the comparison with the release before
	closed  map[string]Mode
	digests bool // files must match every listed digest
	late    []fileLate
}

// builder is a builder and the identities that sign for it.
type builder struct {
	id    string
	level int
	// enforced says by what means its list of dependencies is complete.
	enforced string
	shares   bool // its signers may also have the role release
	signers  []allowedSigner
}

// thresholds say how many distinct parties must agree.
type thresholds struct {
	rules    verify.Rules
	builders int
}

// maxText limits a policy to what a person can review.
const maxText = 256 << 10

// Parse reads a policy strictly. The compiler is for custom rules; with nil, a
// policy that has some is refused.
func Parse(raw []byte, compiler Compiler) (Policy, error) {
	if len(raw) > maxText {
		return Policy{}, verdict.Refuse(verdict.ConfigParse, "policy", "%d bytes, the limit is %d", len(raw), maxText)
	}
	var f file
	if err := strictyaml.Unmarshal(raw, &f); err != nil {
		return Policy{}, verdict.Wrap(verdict.ConfigParse, "policy", err)
	}
	l := &loader{file: f, raw: raw, compiler: compiler}
	p, err := l.load()
	if err != nil {
		return Policy{}, verdict.Wrap(l.code(), "policy", err).Advise(cmp.Or(l.act, l.code().Fix()))
	}
	p.others = otherBytes(digest.Set{SHA256: p.digest})
	if err := probeNothing(&p); err != nil {
		return Policy{}, err
	}
	return p, nil
}

// Name is the name in the policy.
func (p Policy) Name() string { return p.name }

// Digest identifies the policy by its bytes.
func (p Policy) Digest() digest.Digest { return p.digest }

// Sequence is the number of the policy, zero if it has none; a higher one
// replaces a lower one.
func (p Policy) Sequence() int { return p.validity.sequence }

// Expires is when the policy expires; zero if it does not.
func (p Policy) Expires() time.Time { return p.validity.expires }

// Verification says how many transparency logs, timestamp authorities and
// certificate logs evidence needs.
func (p Policy) Verification() verify.Rules { return p.counts.rules }

// Closes is the mode of the requirement that a place contains only the release.
func (p Policy) Closes(place string) Mode { return p.whole.closed[place] }

// AllDigests reports whether files must match every listed digest, and not only
// SHA-256.
func (p Policy) AllDigests() bool { return p.whole.digests }

// Plan is the mode of the requirement that the manifest lists everything
// planned.
func (p Policy) Plan() Mode { return p.whole.plan }

// Regression is the mode of the comparison with an earlier release.
func Regression(p Policy) Mode { return p.whole.earlier }

// ChildrenByIndex reports whether evidence about an image index counts for the
// manifests that it lists. Only questions about single images ask this: in a
// release, every manifest needs evidence of its own.
func (h *Session) ChildrenByIndex() bool { return h.policy.byIndex }

// Life refuses a policy that has expired.
func (p Policy) Life(now time.Time) error {
	if !p.validity.expires.IsZero() && !now.Before(p.validity.expires) {
		return &verdict.Error{Finding: verdict.Find(verdict.PolicyExpired, p.name, "the policy has expired").
			Differ("a policy that is valid at "+now.Format(time.RFC3339), p.validity.expires.Format(time.RFC3339))}
	}
	return nil
}

// InsecureUnsigned reports whether the policy explicitly accepts artifacts
// without signed evidence.
func (p Policy) InsecureUnsigned() bool { return p.unsigned }

// Root refuses a trust root that the policy does not accept, given when it was
// current, which may be unknown.
func (p Policy) Root(isLab bool, current, now time.Time) error {
	switch limit := p.validity.root; {
	case isLab && !p.validity.lab:
		return verdict.Refuse("TRUST_LAB", p.name, "the trust root is an INSECURE LAB, which this policy does not accept")
	case limit > 0 && (current.IsZero() || now.Sub(current) > limit):
		return verdict.Refuse(verdict.Stale, p.name, "%s", p.NewSession().RootAge(current, now)).Advise("use a newer trust root: waybill trust update, or a newer kit; a root from a file has no age")
	}
	return nil
}

// RootAge says how old the trust root is, and may be; empty without a limit.
func (h *Session) RootAge(current, now time.Time) string {
	days := func(d time.Duration) string { return plural.Of(int(d.Hours()/24), "day") }
	switch limit := h.policy.validity.root; {
	case limit == 0:
		return ""
	case current.IsZero():
		return "the age of the trust root is unknown; the policy allows " + days(limit)
	default:
		return "the trust root is " + days(now.Sub(current)) + " old; the policy allows " + days(limit)
	}
}

// Fresh refuses a manifest that was signed too long ago.
func (p Policy) Fresh(manifest string, signed, now time.Time) error {
	if p.validity.manifest > 0 && now.Sub(signed) > p.validity.manifest {
		return &verdict.Error{Finding: verdict.Find(verdict.Stale, manifest, "the manifest was signed too long ago").
			Differ("at most "+p.validity.manifest.String()+" old", fmt.Sprint(now.Sub(signed).Truncate(time.Second)))}
	}
	return nil
}

// Defects is the lowest number that a list of known defects must have; zero
// requires no list.
func (p Policy) Defects() int { return p.validity.defects }
