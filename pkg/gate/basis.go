package gate

import (
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/profile"
	"github.com/waybill-release/waybill/pkg/registry"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
	"github.com/waybill-release/waybill/pkg/version"
	"github.com/waybill-release/waybill/pkg/waiver"
)

// Basis is everything that decisions under one profile rest on. [Under] makes
// it, and every request under a profile comes from it, so that no command can
// leave out what another one asks: the lists of known defects and withdrawals
// above all. A test refuses any other place that fills in a [Request].
//
//	by := gate.Under(p, verifier, gate.Waivers{}, nil)
//	v := gate.Release(ctx, by.Release(version, profile.Release, at, time.Now()))
type Basis struct {
	profile  profile.Profile
	verifier *verify.Verifier
	waivers  Waivers
	switches Switches
}

// Places are the opened places of one stage.
type Places struct {
	Files  store.Place
	Images registry.Source // nil when the release can have no images
}

// Under makes the basis of a profile. The waivers are what the user names
// besides the profile, whose lists always count; switches may be nil.
func Under(p profile.Profile, v *verify.Verifier, named Waivers, s Switches) Basis {
	named.Lists = slices.Concat(p.Defects, named.Lists)
	return Basis{profile: p, verifier: v, waivers: named, switches: s}
}

// Profile is the profile that the basis was made of.
func (b Basis) Profile() profile.Profile { return b.profile }

// Waivers are the profile's lists, and what the user named besides them.
func (b Basis) Waivers() Waivers { return b.waivers }

// Canonical are the addresses where a version belongs.
func (b Basis) Canonical(v version.Version) (c Canonical) {
	c.Files, c.Images = b.profile.Canonical(v)
	return c
}

// Release asks about the release of a version as it lies at a stage.
func (b Basis) Release(v version.Version, s profile.Stage, at Places, now time.Time) Request {
	return Request{
		Version: v, Files: at.Files, Images: at.Images, Canon: b.Canonical(v),
		Verifier: b.verifier, Policy: b.profile.Policy, Stage: policy.Stage(s), Now: now,
		Waivers: b.waivers, Switches: b.switches,
	}
}

// One asks about a single file or image that goes to one of these places, by
// the policy as far as it counts there. Without a place each requirement
// counts as it does where it counts most.
func (b Basis) One(s profile.Stage, now time.Time, goals ...string) (PolicyRequest, error) {
	effective, err := Effective(b.switches, b.profile.Policy, goals...)
	if err != nil {
		return PolicyRequest{}, err
	}
	return PolicyRequest{Policy: effective, Verifier: b.verifier, Stage: policy.Stage(s), Now: now, Waivers: b.waivers}, nil
}

// Withdrawn is what the lists withdraw of a release, for those who say how it
// stands without a decision. The zero manifest is of a release that is not
// sealed yet: of that the whole version can be withdrawn.
func (b Basis) Withdrawn(v version.Version, m release.Manifest, now time.Time) []verdict.Finding {
	said := verdict.New("withdrawals of "+v.String(), now)
	waiver.Apply(said, waiver.Case{Policy: b.profile.Policy, Version: v, Subjects: subjectsOf(m), Lists: b.waivers.Lists})
	return slices.DeleteFunc(said.Findings, func(f verdict.Finding) bool { return f.Code != verdict.Withdrawn })
}
