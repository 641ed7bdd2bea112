package policy

import (
	"slices"

	"github.com/waybill-release/waybill/pkg/release/plan"
)

// Role is what an identity may do.
type Role string

// The roles. Each is a separate identity; none may act in another's place.
const (
	Builder  Role = "builder"
	Release  Role = "release"
	Verifier Role = "verifier"
	Officer  Role = "policy"
	Channels Role = "channel"
	Signoffs Role = "signoff"
	// Reconciler says which requirements are switched on.
	Reconciler Role = "reconciler"
)

// Roles are all roles.
func Roles() []Role {
	return []Role{Release, Verifier, Officer, Channels, Signoffs, Reconciler, Builder}
}

// Places that a policy can close: nothing but the release may be in them.
const (
	Files  = "files"
	Images = "images"
)

// Stage is where on its way a release is judged.
type Stage string

// The stages.
const (
	Staging   Stage = "staging"
	Published Stage = "release"
)

func stages() []Stage { return []Stage{Staging, Published} }

// Mode is how much a check counts.
type Mode string

// The modes. A check that is not required is named by every verdict that was
// reached without it: such a verdict is partial.
const (
	Require Mode = "require" // it stands against acceptance
	Warn    Mode = "warn"    // it is looked at and reported
	Off     Mode = "off"     // it is not looked at
)

// complete is required, and more: the SBOM leaves nothing of the artifact
// unexamined. It is said of SBOMs alone.
const complete Mode = "complete"

func (m Mode) known() bool { return m == Require || m == Warn || m == Off }

// Check is one kind of evidence that an artifact can be asked for.
type Check string

// The checks of an artifact.
const (
	Provenance Check = "provenance" // a builder says how it was built
	Signature  Check = "signature"  // the release identity signed it
	SBOM       Check = "sbom"       // an SBOM describes its bytes
	Summary    Check = "summary"    // a verifier vouches for it
)

// Judged are the classes of artifacts that a policy says something about. The
// rest of a release is evidence, or is bound by the manifest alone.
func Judged() []plan.Class {
	return []plan.Class{plan.Binary, plan.Archive, plan.Other, plan.Image, plan.ImageChild, plan.Sums}
}

// ChecksOf are the checks that make sense for a class. A policy gives each of
// them a mode; a summary that it does not name is off.
func ChecksOf(c plan.Class) []Check {
	switch c {
	case plan.Binary, plan.Archive, plan.Other, plan.Image:
		return []Check{Provenance, Signature, SBOM, Summary}
	case plan.ImageChild: // its index has the SBOM
		return []Check{Provenance, Signature, Summary}
	case plan.Sums: // the control plane writes them, of what it hashed itself
		return []Check{Signature}
	}
	return nil
}

func isJudged(c plan.Class) bool { return slices.Contains(Judged(), c) }
