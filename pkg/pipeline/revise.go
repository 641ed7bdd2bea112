package pipeline

import (
	"context"
	"errors"
	"fmt"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/produce/seal"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Revision is the next revision of a sealed release, of the manifest in the
// state directory or of the one that lies at a stage. It is drafted by Amend or
// Withdraw, for which nothing is signed and no token is needed, and then signed.
type Revision struct {
	*job
	at profile.Stage
}

// Revise returns the next revision of the manifest that lies at a stage; an
// empty stage is the state directory. At a stage no state directory is needed.
func (p *Pipeline) Revise(at profile.Stage) Revision { return Revision{p.job, at} }

// Amend drafts the revision with the evidence that is there now. At a stage
// everything that the manifest lists must be accepted as it is.
func (r Revision) Amend(ctx context.Context, reason string) (manifest.Manifest, error) {
	if r.at != "" {
		return r.amendAt(ctx, reason)
	}
	here, err := built(ctx, r.job, facts{})
	if err != nil {
		return manifest.Manifest{}, err
	}
	return seal.Amend(ctx, r.request(here.plan, here.w), reason)
}

// Withdraw drafts the revision that says that the release must no longer be
// used. At a stage nothing else of the release need be there.
func (r Revision) Withdraw(ctx context.Context, w manifest.Withdrawal) (manifest.Manifest, error) {
	if r.at != "" {
		return r.withdrawAt(ctx, w)
	}
	here, err := built(ctx, r.job, facts{})
	if err != nil {
		return manifest.Manifest{}, err
	}
	return seal.Withdraw(ctx, r.request(here.plan, here.w), w)
}

// Sign signs a drafted revision as the release identity and puts it in the place
// of the one before. In the state directory it is public once it is promoted;
// at a stage it is put at the other stage too, where that has the same one.
func (r Revision) Sign(ctx context.Context, next manifest.Manifest) error {
	if r.at != "" {
		return r.signAt(ctx, next)
	}
	a := signsRevision(next)
	a.do = sealing(func(ctx context.Context, req seal.Request) (int, error) { return 0, seal.Revise(ctx, req, next) })
	_, err := runner{r.job}.perform(ctx, a, facts{})
	return err
}

// signsRevision is the act that signs a drafted revision.
func signsRevision(next manifest.Manifest) act {
	if next.Withdrawn != nil {
		return revision(actWithdraw, manifest.RunWithdraw)
	}
	return revision(actAmend, manifest.RunAmend)
}

// Forecast looks ahead at signing a drafted revision: as whom, and with which
// services.
func (r Revision) Forecast(ctx context.Context, next manifest.Manifest) (Forecast, error) {
	o := &outlook{job: r.job, plan: plan.Plan{Name: next.Name, Version: next.Version}}
	if r.at == "" {
		return o.fill(ctx, o.forecast(next.Source.Commit), signsRevision(next))
	}
	uri, err := r.Profile.Files(r.at, r.Version)
	if err != nil {
		return Forecast{}, err
	}
	return o.elsewhere(ctx, signsRevision(next), next.Source.Commit, uri)
}

// amendAt drafts the next revision of the manifest that lies at a stage, with
// everything that it lists: what lies there must be accepted as it is.
func (r Revision) amendAt(ctx context.Context, reason string) (manifest.Manifest, error) {
	if _, err := (runner{r.job}).perform(ctx, decide(r.at), facts{}); err != nil {
		return manifest.Manifest{}, fmt.Errorf("an amendment vouches for the release once more, so it must be accepted as it is: %w", err)
	}
	before, bundle, _, err := r.standing(ctx)
	if err != nil {
		return manifest.Manifest{}, err
	}
	return seal.Again(before, bundle, reason, r.Clock())
}

// withdrawAt drafts the revision of the manifest that lies at a stage that says
// that the release must no longer be used.
func (r Revision) withdrawAt(ctx context.Context, w manifest.Withdrawal) (manifest.Manifest, error) {
	before, bundle, _, err := r.standing(ctx)
	if err != nil {
		return manifest.Manifest{}, err
	}
	return seal.Withdrawn(before, bundle, w, r.Clock())
}

// standing is the verified manifest that lies at a stage, the digest of its
// bundle, and the place.
func (r Revision) standing(ctx context.Context) (manifest.Manifest, digest.Digest, place, error) {
	at, err := r.place(r.at)
	if err != nil {
		return manifest.Manifest{}, digest.Digest{}, place{}, err
	}
	m, raw, err := r.own(ctx, at.files)
	if errors.Is(err, store.ErrNotFound) {
		err = verdict.Refuse(verdict.EvidenceMissing, at.files.URI(), "it holds no manifest of %s, so there is nothing to revise", r.Version).
			Advise("nothing is public or staged there, so nobody needs to be told; --at names the stage, and the profile its place")
	}
	if err != nil {
		return manifest.Manifest{}, digest.Digest{}, place{}, err
	}
	return m, digest.Of(digest.SHA256, raw), at, nil
}

// signAt signs a drafted revision as the release identity and puts it in the
// place of the one that lies at a stage, and at the other stage too, where that
// has the same one. Whatever came there since it was drafted stays, and is
// named.
func (r Revision) signAt(ctx context.Context, next manifest.Manifest) (err error) {
	before, superseded, at, err := r.standing(ctx)
	if err != nil {
		return err
	}
	if err := next.Follows(before, superseded); err != nil {
		return err
	}
	a := signsRevision(next)
	ctx, end := r.spanning(r.inLife(ctx, lifeOf(before)), a.span, a.name)
	defer func() { end(err) }()
	next = seal.SignedIn(ctx, next, a.name, r.Typed.command())
	statement, err := next.Statement()
	if err != nil {
		return err
	}
	signer, err := r.signer(a.signs, r.Work, false)
	if err != nil {
		return err
	}
	began := r.Clock()
	bundle, e, err := signer.Statement(ctx, statement)
	r.sum(Summary{Act: a.name}, signer, began)
	if err != nil {
		return err
	}
	if _, _, err := r.Profile.Policy.ManifestFrom(e, pagesAt(ctx, at.files)); err != nil {
		return fmt.Errorf("judging what was signed, which was not written: %w", err)
	}
	if err := r.supersede(ctx, at, superseded, bundle); err != nil {
		return err
	}
	r.Report(ctx, "revision %d is at %s, and supersedes %s: %s", next.Revision, at.files.URI(), next.Supersedes, next.Change)
	return r.bringAlong(ctx, other(r.at), superseded, bundle)
}

func other(s profile.Stage) profile.Stage {
	if s == profile.Release {
		return profile.Staging
	}
	return profile.Release
}

// supersede writes a manifest over the one that it supersedes, and reads it
// back as a verifier does.
func (r Revision) supersede(ctx context.Context, at place, superseded digest.Digest, bundle []byte) error {
	err := store.Replace(ctx, at.files, at.writer, releasemanifest.Name, store.Replacement{Old: superseded, New: bundle, MediaType: plan.MediaBundle})
	if errors.Is(err, store.ErrChanged) {
		return r.overtaken(ctx, at, err)
	}
	if err != nil {
		return err
	}
	if _, raw, err := r.manifest(ctx, at.files); err != nil || !digest.Of(digest.SHA256, raw).Equal(digest.Of(digest.SHA256, bundle)) {
		return r.overtaken(ctx, at, err)
	}
	return nil
}

// overtaken says that somebody else revised the manifest at the same time.
func (r Revision) overtaken(ctx context.Context, at place, cause error) error {
	m, _, err := r.manifest(ctx, at.files)
	if err != nil {
		return fmt.Errorf("revising the manifest of %s, where another came meanwhile: %w", at.files.URI(), errors.Join(err, cause))
	}
	return verdict.Refuse(verdict.Equivocation, at.files.URI(),
		"somebody wrote revision %d there meanwhile (%s), and it stays; ours was signed and is nowhere: look at theirs, then revise again", m.Revision, m.Change)
}

// bringAlong puts a revision where the one that it supersedes lies, too. That
// another one lies there is no error of the revision, and is told.
func (r Revision) bringAlong(ctx context.Context, s profile.Stage, superseded digest.Digest, bundle []byte) error {
	at, err := r.place(s)
	if err != nil {
		return err
	}
	err = store.Replace(ctx, at.files, at.writer, releasemanifest.Name, store.Replacement{Old: superseded, New: bundle, MediaType: plan.MediaBundle})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case errors.Is(err, store.ErrChanged):
		r.Report(ctx, "%s has another manifest than the one that was superseded; it was left as it is", at.files.URI())
		return nil
	case err != nil:
		return fmt.Errorf("the revision is at the %s place; bringing it to the %s place too: %w", other(s), s, err)
	}
	r.Report(ctx, "it is at %s, too", at.files.URI())
	return nil
}
