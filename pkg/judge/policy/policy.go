// Package policy says what is asked of evidence, in a file that a release
// manager can read.
//
// A [Policy] names who may act in which role and when, which builders are
// believed how far and who speaks for them, what a build may be made of, which
// evidence each class of artifact needs at each stage, and the places that
// must hold nothing but the release. Every key is known and used; whatever
// would make it ask less than it seems to is a load error with line and
// column: an empty list, an identity in two roles, a pattern that matches too
// much, a class that nothing is required of.
//
//	p, err := policy.Parse(raw, nil)
//	v := p.Decide(evidence, policy.Question{Stage: policy.Published, Class: plan.Binary, …})
//	err := v.Err()
//
// It compiles into a small algebra: [All], [Any] and [AtLeast] over leaves
// that each ask one thing of a [Fact]. A Fact is made from verified evidence;
// a file of cases makes others to rehearse a policy ([Rehearse]), and
// from those no Verdict can come. After a policy accepted, it is asked again
// with each required item taken away, by a stranger, and about other bytes;
// if it accepts that too, the policy itself is refused (POLICY_VACUOUS).
//
// The policy reads no bundle, no clock and no network.
package policy

import (
	_ "embed"
	"fmt"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

//go:embed schema.json
var schema []byte

// Schema is the JSON schema of policies, for editors.
func Schema() []byte { return schema }

// Policy is a parsed policy. The zero Policy accepts nobody.
type Policy struct {
	name     string
	digest   digest.Digest
	others   digest.Set // bytes that nobody made, for the probe
	validity validity
	unsigned bool // it accepts what nothing signed speaks for

	actors    actors
	build     expectations
	summaries []summary
	counts    thresholds

	cells    map[cell]demand
	vouch    map[cell]Rule // what stands for provenance; nil: nothing does
	rules    []rule
	whole    whole
	signoff  signoff
	switches switches
}

// validity is which edition of a policy it is, and what it may judge by.
type validity struct {
	sequence int
	lab      bool
	expires  time.Time     // zero: never
	manifest time.Duration // how old it may be; zero: as old as it likes
	defects  int           // the least number of the list of known defects
}

// whole is what is asked of a release as a whole.
type whole struct {
	plan    Mode
	closed  map[string]Mode
	digests bool // files are compared by every digest that is listed
	late    []fileLate
}

// builder is a builder and those who may speak for it.
type builder struct {
	id      string
	level   int
	signers []Signer
}

// thresholds are how many distinct parties must say the same.
type thresholds struct {
	rules    verify.Rules
	builders int
}

// maxText bounds a policy: what nobody can read, nobody should judge by.
const maxText = 256 << 10

// Parse reads a policy strictly. The compiler is for the rules that it may
// have of its own; nil refuses a policy that has some.
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
		return Policy{}, verdict.Wrap(l.code(), "policy", err)
	}
	p.others = otherBytes(digest.Set{SHA256: p.digest})
	if err := probeNothing(&p); err != nil {
		return Policy{}, err
	}
	return p, nil
}

// Name is what the policy calls itself.
func (p Policy) Name() string { return p.name }

// Digest names the policy by its bytes.
func (p Policy) Digest() digest.Digest { return p.digest }

// Sequence is the number of the policy, zero when it has none; a higher one
// replaces a lower one.
func (p Policy) Sequence() int { return p.validity.sequence }

// Expires is when the policy ceases to be one; zero when it does not say.
func (p Policy) Expires() time.Time { return p.validity.expires }

// Verification is how many logs, authorities and certificate logs evidence
// must convince.
func (p Policy) Verification() verify.Rules { return p.counts.rules }

// Closes is how much it counts that a place holds nothing but the release.
func (p Policy) Closes(place string) Mode { return p.whole.closed[place] }

// AllDigests reports whether files are compared by every digest that is listed,
// and not by SHA-256 alone.
func (p Policy) AllDigests() bool { return p.whole.digests }

// Plan is how much it counts that the manifest lists what was planned.
func (p Policy) Plan() Mode { return p.whole.plan }

// Life refuses to judge by a policy that has expired.
func (p Policy) Life(now time.Time) error {
	if !p.validity.expires.IsZero() && !now.Before(p.validity.expires) {
		return &verdict.Error{Finding: verdict.Find(verdict.PolicyExpired, p.name, "the policy has expired").
			Differ("a policy valid at "+now.Format(time.RFC3339), p.validity.expires.Format(time.RFC3339))}
	}
	return nil
}

// InsecureUnsigned reports whether the policy says that it accepts what nothing
// signed speaks for.
func (p Policy) InsecureUnsigned() bool { return p.unsigned }

// Root refuses a trust root that the policy does not judge by.
func (p Policy) Root(isLab bool) error {
	if isLab && !p.validity.lab {
		return verdict.Refuse(verdict.TrustLab, p.name, "the trust root is an INSECURE LAB, and this policy does not judge by one")
	}
	return nil
}

// Fresh refuses a manifest that was signed too long ago.
func (p Policy) Fresh(manifest string, signed, now time.Time) error {
	if p.validity.manifest > 0 && now.Sub(signed) > p.validity.manifest {
		return &verdict.Error{Finding: verdict.Find(verdict.Stale, manifest, "it was signed too long ago").
			Differ("at most "+p.validity.manifest.String()+" old", fmt.Sprint(now.Sub(signed).Truncate(time.Second)))}
	}
	return nil
}

// Defects is the least number that a list of known defects must have; zero
// asks for none.
func (p Policy) Defects() int { return p.validity.defects }
