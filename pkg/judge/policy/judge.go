package policy

import (
	"slices"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/rebuildrecord"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Ask is a check of one piece of evidence, where a stage of the pipeline needs
// one answer and no verdict.
type Ask struct {
	Role Role
	// Kind is a predicate type, or "blob" for a plain signature.
	Kind string
	// Subject is the artifact's name, and Bytes the digests computed from it.
	Subject string
	Bytes   digest.Set
	// InRegistry says that the artifact is named by its digest: registries have
	// no other name.
	InRegistry bool
	// Stage and Class say at which stage the artifact is checked and what it
	// is, as far as known: an identity that is limited to some may not act in
	// others.
	Stage Stage
	Class plan.Class
	// Whole says that the statement itself is wanted, and not what it says
	// about one artifact: a manifest binds its subjects entry by entry.
	Whole bool
}

// Judge checks that evidence has the right kind, covers the right bytes and is
// signed in the right role. It returns what was proven and by whom.
func (p Policy) Judge(e verify.Evidence, ask Ask) (verdict.Proof, error) {
	if e.IsZero() {
		return verdict.Proof{}, verdict.Refuse(verdict.EvidenceMissing, ask.Subject, "no evidence of type %s", ask.Kind)
	}
	f := factOf(e)
	m := &judgement{policy: &p, q: Question{Stage: ask.Stage, Class: ask.Class, Subject: ask.Subject, Bytes: ask.Bytes, ByDigest: ask.InRegistry}}
	clauses := []clause{ofKind(ask.Kind), byRole(ask.Role)}
	if !ask.Whole {
		clauses = append(clauses, bound)
	}
	for _, c := range clauses {
		if err := c(m, &f); err != nil {
			return verdict.Proof{}, say(err)
		}
	}
	return f.proof(ask.Subject, ask.Role), nil
}

// ManifestFrom parses the release manifest in evidence, if its signer may sign
// manifests of the version that it names. It does not check which release the manifest describes. The list
// may be on pages; a manifest with pages is refused if none are given.
func (p Policy) ManifestFrom(e verify.Evidence, pages manifest.Opener) (manifest.Manifest, verdict.Proof, error) {
	proof, err := p.Judge(e, Ask{Role: Release, Kind: releasemanifest.PredicateType, Subject: releasemanifest.Name, Whole: true})
	if err != nil {
		return manifest.Manifest{}, verdict.Proof{}, err
	}
	m, err := manifest.ReadManifest(e.Statement(), pages)
	if err == nil {
		f := factOf(e)
		err = say(p.actors.acts(&f, Release, &Question{Subject: releasemanifest.Name, Version: m.Version.String()}))
	}
	if err != nil {
		return manifest.Manifest{}, verdict.Proof{}, err
	}
	return m, proof, nil
}

// Provenance checks what verified provenance of a version states: its signer
// may sign for the builder that it names, and source, build type and parameters
// are those that the policy expects.
func (p Policy) Provenance(e verify.Evidence, version string) error {
	f := factOf(e)
	m := &judgement{policy: &p, q: Question{Subject: "provenance", Version: version}}
	if built := e.Statement().Subjects(); len(built) > 0 {
		m.q.Subject = built[0].Name // which build it describes
	}
	if _, err := f.claim(); err != nil {
		return err
	}
	for _, c := range []clause{byRole(Builder), fromSource, ofType, withParameters} {
		if err := c(m, &f); err != nil {
			return say(err)
		}
	}
	return nil
}

// AllowsLate reports whether a role may add evidence of a kind to a sealed
// release at a stage.
func (p Policy) AllowsLate(kind string, role Role, stage Stage) bool {
	return kind == rebuildrecord.PredicateType && role == rebuilder && slices.Contains(p.rebuilt.stages, stage) || slices.ContainsFunc(p.whole.late, func(late fileLate) bool {
		return late.Predicate == kind && late.Role == role && slices.Contains(late.Stages, stage)
	})
}

// IsLate reports whether evidence that the manifest does not list may be added
// to a release, or to one artifact: by its kind, and the role of its signer. Only
// class, stage and subject of the question count.
func (p Policy) IsLate(e verify.Evidence, q Question) bool {
	f := factOf(e)
	return !e.IsZero() && f.isLate(&p, q)
}

func (f *fact) isLate(p *Policy, q Question) bool {
	return slices.ContainsFunc(Roles(), func(role Role) bool {
		return p.AllowsLate(f.kind, role, q.Stage) && p.actors.acts(f, role, &q) == nil
	})
}
