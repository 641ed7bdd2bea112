package gate

import (
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Gate has everything that decisions under one profile need. [Open] makes it,
// and every request under a profile is made by it, so no command can forget an
// input that another one uses, above all the lists of known defects and
// withdrawals. A test refuses any other code that fills in a [Request].
type Gate struct {
	profile  profile.Profile
	verifier *verify.Verifier
	waivers  Waivers
	switches Switches
	sources  []verify.Evidence
	find     bool // look for further sources
	opening  Opening
}

// Places are the opened places of one stage.
type Places struct {
	Files  store.Place
	Images registry.Source // nil if the release has no images
}

// Under is [Open] for callers that have read the profile already. The named
// waivers are added to those of the profile, which always apply; switches may
// be nil.
func Under(p profile.Profile, v *verify.Verifier, named Waivers, s Switches) Gate {
	named.Lists = slices.Concat(p.Defects, named.Lists)
	g := Gate{profile: p, verifier: v, waivers: named, switches: s}
	g.opening.complete()
	return g
}

// WithSources returns the gate with verified summaries of source revisions, and
// declarations, which count as far as the policy trusts their signers.
func (g Gate) WithSources(sources ...verify.Evidence) Gate {
	g.sources = sources
	return g
}

// Verifier is the verifier of this gate.
func (g Gate) Verifier() *verify.Verifier { return g.verifier }

// Profile is the profile of this gate.
func (g Gate) Profile() profile.Profile { return g.profile }

// Waivers are the lists of the profile and the waivers that the user named.
func (g Gate) Waivers() Waivers { return g.waivers }

// Switches say which requirements of the policy are in force; nil without
// features.
func (g Gate) Switches() Switches { return g.switches }

// Canonical returns the addresses where a version is published.
func (g Gate) Canonical(v version.Version) (c Canonical) {
	c.Files, c.Images = g.profile.Canonical(v)
	return c
}

// Release makes the request about a release in the places of a stage.
func (g Gate) Release(v version.Version, s profile.Stage, at Places, now time.Time) Request {
	return Request{
		Version: v, Files: at.Files, Images: at.Images, Canon: g.Canonical(v),
		Verifier: g.verifier, Policy: g.profile.Policy, Stage: policy.Stage(s), Now: now,
		Waivers: g.waivers, Switches: g.switches, Sources: g.sources, FindSources: g.find, world: &g.opening,
	}
}

// One makes the request about a single file or image that goes to one of these
// places. The policy is the one in force there. Without a place, each
// requirement is in force as strictly as in any place.
func (g Gate) One(s profile.Stage, now time.Time, goals ...string) (PolicyRequest, error) {
	if g.find {
		return PolicyRequest{}, noAuto()
	}
	effective, err := Effective(g.switches, g.profile.Policy, goals...)
	if err != nil {
		return PolicyRequest{}, err
	}
	return PolicyRequest{Policy: effective, Verifier: g.verifier, Stage: policy.Stage(s), Now: now, Waivers: g.waivers, Sources: g.sources}, nil
}

// Withdrawn lists what the profile's lists withdraw of a release, for callers
// that report a state and do not decide. The zero manifest stands for a release
// that is not sealed yet, of which only the whole version can be withdrawn.
func (g Gate) Withdrawn(v version.Version, m manifest.Manifest, now time.Time) []verdict.Finding {
	said := verdict.New("withdrawals of "+v.String(), now)
	waiver.Apply(said, waiver.Case{Policy: g.profile.Policy, Version: v, Subjects: subjectsOf(m), Lists: g.waivers.Lists})
	return slices.DeleteFunc(said.Findings, func(f verdict.Finding) bool { return f.Code != verdict.Withdrawn })
}
