package policy

import (
	"slices"

	"github.com/waybill-release/waybill/pkg/document/openvex"
	"github.com/waybill-release/waybill/pkg/release/plan"
)

// Role is a permission of an identity.
type Role string

// The roles. Each has its own identities, and none may act in another role.
const (
	Builder  Role = "builder"
	Release  Role = "release"
	Verifier Role = "verifier"
	Officer  Role = "policy"
	Channels Role = "channel"
	Signoffs Role = "signoff"
	// Reconciler signs which requirements are switched on.
	Reconciler Role = "reconciler"
	// sources signs which level the source of a revision has. Its identities
	// are listed by verifier, as those of builders are by builder.
	sources Role = "source"
	// vexSigner signs what is known about vulnerabilities of a release.
	vexSigner Role = openvex.Role
)

// Roles are all roles.
func Roles() []Role {
	return []Role{Release, Verifier, Officer, Channels, Signoffs, Reconciler, vexSigner, Builder, sources, rebuilder}
}

// The places that a policy can close, so that they may contain only the
// release.
const (
	Files  = "files"
	Images = "images"
)

// Stage is the stage of its publication at which a release is checked.
type Stage string

// The stages.
const (
	Staging   Stage = "staging"
	Published Stage = "release"
)

func stages() []Stage { return []Stage{Staging, Published} }

// Mode says how the failure of a check counts.
type Mode string

// The modes. Every verdict lists the checks that were not required, and is
// partial if there are any.
const (
	Require Mode = "require" // a failure refuses
	Warn    Mode = "warn"    // a failure is reported
	Off     Mode = "off"     // not checked
)

// ifPresent is require where there is evidence of the kind by an identity that
// the policy lists, and off elsewhere: for evidence that a project has begun to
// publish. It is valid for provenance and summaries only.
const ifPresent Mode = "if-present"

// complete is require, and the SBOM must leave no part of the artifact
// unexamined. It is valid for SBOMs only.
const complete Mode = "complete"

func (m Mode) known() bool { return m == Require || m == Warn || m == Off }

// Check is one kind of evidence that can be required for an artifact.
type Check string

// The checks of an artifact.
const (
	Provenance Check = "provenance" // signed by a builder: how it was built
	Signature  Check = "signature"  // signed by the release identity
	SBOM       Check = "sbom"       // an SBOM describes its bytes
	Summary    Check = "summary"    // signed by a verifier: that it passed
)

// Judged lists the classes of artifacts that a policy has requirements for. The
// other files of a release are evidence, or are bound by the manifest alone.
func Judged() []plan.Class {
	return []plan.Class{plan.Binary, plan.Archive, plan.Other, plan.Image, plan.ImageChild, plan.Sums}
}

// ChecksOf lists the checks that apply to a class. A policy must give each of
// them a mode, except that an omitted summary is off.
func ChecksOf(c plan.Class) []Check {
	switch c {
	case plan.Binary, plan.Archive, plan.Other, plan.Image:
		return []Check{Provenance, Signature, SBOM, Summary}
	case plan.ImageChild: // its index has the SBOM
		return []Check{Provenance, Signature, Summary}
	case plan.Sums: // the control plane writes them, from digests that it computed
		return []Check{Signature}
	}
	return nil
}

// isJudged reports whether a policy can have requirements for a class. Those for
// SBOMs are optional: without a row, an SBOM is bound by the manifest alone.
func isJudged(c plan.Class) bool { return c == plan.SBOM || slices.Contains(Judged(), c) }

// judgeable lists the classes that a policy can have requirements for.
func judgeable() []plan.Class { return append(Judged(), plan.SBOM) }

// checksOf lists the checks that apply to a class, in the rows of a policy.
func checksOf(c plan.Class) []Check {
	if c == plan.SBOM { // the signed list of SBOMs is the signature of each
		return []Check{Signature}
	}
	return ChecksOf(c)
}

// judgedBy lists the classes that a policy has requirements for at a stage.
func judgedBy(p Policy, stage Stage) []plan.Class {
	if _, there := p.cells[cell{stage, plan.SBOM}]; there {
		return judgeable()
	}
	return Judged()
}
