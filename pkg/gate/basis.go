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

// Gate is everything that decisions under one profile rest on. [Open] makes it,
// and every request under a profile comes from it, so that no command can leave
// out what another one asks: the lists of known defects and withdrawals above
// all. A test refuses any other place that fills in a [Request].
type Gate struct {
	profile  profile.Profile
	verifier *verify.Verifier
	waivers  Waivers
	switches Switches
	opening  Opening
}

// Places are the opened places of one stage.
type Places struct {
	Files  store.Place
	Images registry.Source // nil when the release can have no images
}

// Under is [Open] for who has read the profile already. The waivers are what the
// user names besides the profile, whose lists always count; switches may be nil.
func Under(p profile.Profile, v *verify.Verifier, named Waivers, s Switches) Gate {
	named.Lists = slices.Concat(p.Defects, named.Lists)
	g := Gate{profile: p, verifier: v, waivers: named, switches: s}
	g.opening.complete()
	return g
}

// Verifier is the one that decisions are made with.
func (g Gate) Verifier() *verify.Verifier { return g.verifier }

// Profile is the profile that the gate was made of.
func (g Gate) Profile() profile.Profile { return g.profile }

// Waivers are the profile's lists, and what the user named besides them.
func (g Gate) Waivers() Waivers { return g.waivers }

// Switches say how far the policy counts; nil where no features switch it.
func (g Gate) Switches() Switches { return g.switches }

// Canonical are the addresses where a version belongs.
func (g Gate) Canonical(v version.Version) (c Canonical) {
	c.Files, c.Images = g.profile.Canonical(v)
	return c
}

// Release asks about the release of a version as it lies at a stage.
func (g Gate) Release(v version.Version, s profile.Stage, at Places, now time.Time) Request {
	return Request{
		Version: v, Files: at.Files, Images: at.Images, Canon: g.Canonical(v),
		Verifier: g.verifier, Policy: g.profile.Policy, Stage: policy.Stage(s), Now: now,
		Waivers: g.waivers, Switches: g.switches,
	}
}

// One asks about a single file or image that goes to one of these places, by
// the policy as far as it counts there. Without a place each requirement
// counts as it does where it counts most.
func (g Gate) One(s profile.Stage, now time.Time, goals ...string) (PolicyRequest, error) {
	effective, err := Effective(g.switches, g.profile.Policy, goals...)
	if err != nil {
		return PolicyRequest{}, err
	}
	return PolicyRequest{Policy: effective, Verifier: g.verifier, Stage: policy.Stage(s), Now: now, Waivers: g.waivers}, nil
}

// Withdrawn is what the lists withdraw of a release, for those who say how it
// stands without a decision. The zero manifest is of a release that is not
// sealed yet: of that the whole version can be withdrawn.
func (g Gate) Withdrawn(v version.Version, m manifest.Manifest, now time.Time) []verdict.Finding {
	said := verdict.New("withdrawals of "+v.String(), now)
	waiver.Apply(said, waiver.Case{Policy: g.profile.Policy, Version: v, Subjects: subjectsOf(m), Lists: g.waivers.Lists})
	return slices.DeleteFunc(said.Findings, func(f verdict.Finding) bool { return f.Code != verdict.Withdrawn })
}
