package policy

import (
	"slices"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Ask is what one piece of evidence must prove, where a stage of the pipeline
// needs one answer and no verdict.
type Ask struct {
	Role Role
	// Kind is a predicate type, or "blob" for a plain signature.
	Kind string
	// Subject is the artifact's name, and Bytes what was hashed under it.
	Subject string
	Bytes   digest.Set
	// InRegistry says that the digest is the name: registries have no other.
	InRegistry bool
	// Stage and Class are where the artifact is judged and what it is, as far as
	// it is known: an identity that is kept to some acts in no other.
	Stage Stage
	Class plan.Class
	// Whole says that the statement is not about one artifact but is itself
	// what is asked for: a manifest binds its subjects entry by entry.
	Whole bool
}

// Judge answers one ask: the right kind of evidence, bound to the right
// bytes, by the right role. What it returns is what was proven and by whom.
func (p Policy) Judge(e verify.Evidence, ask Ask) (verdict.Proof, error) {
	if e.IsZero() {
		return verdict.Proof{}, verdict.Refuse(verdict.EvidenceMissing, ask.Subject, "no evidence that says %s", ask.Kind)
	}
	f := FactOf(e)
	m := &matter{policy: &p, q: Question{Stage: ask.Stage, Class: ask.Class, Subject: ask.Subject, Bytes: ask.Bytes, ByDigest: ask.InRegistry}}
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

// ManifestFrom reads the release manifest that evidence says, if its signer may
// sign one. Whether it is the one that was asked for is not judged. Its list may
// be on pages; without pages one that is on some is refused.
func (p Policy) ManifestFrom(e verify.Evidence, pages manifest.Opener) (manifest.Manifest, verdict.Proof, error) {
	proof, err := p.Judge(e, Ask{Role: Release, Kind: releasemanifest.PredicateType, Subject: releasemanifest.Name, Whole: true})
	if err != nil {
		return manifest.Manifest{}, verdict.Proof{}, err
	}
	m, err := manifest.ReadManifest(e.Statement(), pages)
	if err != nil {
		return manifest.Manifest{}, verdict.Proof{}, err
	}
	return m, proof, nil
}

// Provenance judges what verified provenance of a version says: that its
// signer may speak for the builder it names, that it was built from the
// canonical source, in a way and with parameters that the policy expects.
func (p Policy) Provenance(e verify.Evidence, version string) error {
	f := FactOf(e)
	m := &matter{policy: &p, q: Question{Subject: "provenance", Version: version}}
	if built := e.Statement().Subjects(); len(built) > 0 {
		m.q.Subject = built[0].Name // of which build it is
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

// AllowsLate reports whether a role may add evidence of a kind to a release
// that was sealed, at a stage.
func (p Policy) AllowsLate(kind string, role Role, stage Stage) bool {
	return slices.ContainsFunc(p.whole.late, func(late fileLate) bool {
		return late.Predicate == kind && late.Role == role && slices.Contains(late.Stages, stage)
	})
}

// IsLate reports whether evidence that the manifest does not list may be added
// to a release at a stage: its kind, by the role that the policy names.
func (p Policy) IsLate(e verify.Evidence, stage Stage) bool {
	f := FactOf(e)
	return !e.IsZero() && f.isLate(&p, stage)
}

func (f *Fact) isLate(p *Policy, stage Stage) bool {
	return slices.ContainsFunc(Roles(), func(role Role) bool {
		return p.AllowsLate(f.kind, role, stage) && p.actors.acts(f, role, &Question{Subject: "late evidence", Stage: stage}) == nil
	})
}
