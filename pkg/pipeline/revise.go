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
// state directory or at a stage. Amend or Withdraw drafts it, which signs
// nothing and needs no token; Sign signs it.
type Revision struct {
	*job
	at profile.Stage
}

// Revise returns the next revision of the manifest at a stage; an empty stage
// means the state directory. A stage needs no state directory.
func (p *Pipeline) Revise(at profile.Stage) Revision { return Revision{p.job, at} }

// Amend drafts a revision with the evidence that exists now. At a stage, the
// gate must accept the release as it is.
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
// used. At a stage, only the manifest is needed.
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

// Sign signs a drafted revision as the release identity and replaces the
// previous manifest. A revision in the state directory becomes public when it
// is promoted; one at a stage is also written to the other stage if that has
// the same previous manifest.
func (r Revision) Sign(ctx context.Context, next manifest.Manifest) error {
	if r.at != "" {
		return r.signAt(ctx, next)
	}
	a := signsRevision(next)
	a.do = sealing(func(ctx context.Context, req seal.Request) (int, error) { return 0, seal.Revise(ctx, req, next) })
	_, err := runner{r.job}.perform(ctx, a, facts{})
	return err
}

func signsRevision(next manifest.Manifest) act {
	if next.Withdrawn != nil {
		return revision(actWithdraw, manifest.RunWithdraw)
	}
	return revision(actAmend, manifest.RunAmend)
}

// Forecast returns what signing a drafted revision would need: the identity
// and the services.
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

// amendAt drafts the next revision of the manifest at a stage, with
// everything that it lists, if the gate accepts the release as it is.
func (r Revision) amendAt(ctx context.Context, reason string) (manifest.Manifest, error) {
	if _, err := (runner{r.job}).perform(ctx, gateAct(r.at), facts{}); err != nil {
		return manifest.Manifest{}, fmt.Errorf("amending requires an accepted release, because the new signature confirms all of it: %w", err)
	}
	before, bundle, _, err := r.current(ctx)
	if err != nil {
		return manifest.Manifest{}, err
	}
	return seal.Again(before, bundle, reason, r.Clock())
}

// withdrawAt drafts the revision that withdraws the release at a stage.
func (r Revision) withdrawAt(ctx context.Context, w manifest.Withdrawal) (manifest.Manifest, error) {
	before, bundle, _, err := Revision{anyTime(r.job), r.at}.current(ctx)
	if err != nil {
		return manifest.Manifest{}, err
	}
	return seal.Withdrawn(before, bundle, w, r.Clock())
}

// current returns the verified manifest at a stage, the digest of its bundle,
// and the place.
func (r Revision) current(ctx context.Context) (manifest.Manifest, digest.Digest, place, error) {
	at, err := r.place(r.at)
	if err != nil {
		return manifest.Manifest{}, digest.Digest{}, place{}, err
	}
	m, raw, err := r.ownManifest(ctx, at.files)
	if errors.Is(err, store.ErrNotFound) {
		err = verdict.Refuse(verdict.EvidenceMissing, at.files.URI(), "no manifest of %s to revise", r.Version).
			Advise("check --at, which names the stage, and the place of that stage in the profile")
	}
	if err != nil {
		return manifest.Manifest{}, digest.Digest{}, place{}, err
	}
	return m, digest.Of(digest.SHA256, raw), at, nil
}

// signAt signs a drafted revision as the release identity and replaces the
// manifest at a stage, and at the other stage if that has the same previous
// manifest. A manifest that was written since the draft is kept and reported.
func (r Revision) signAt(ctx context.Context, next manifest.Manifest) (err error) {
	before, superseded, at, err := Revision{anyTime(r.job), r.at}.current(ctx)
	if err != nil {
		return err
	}
	if err := next.Follows(before, superseded); err != nil {
		return err
	}
	a := signsRevision(next)
	ctx, end := r.startSpan(r.inTraceOf(ctx, traceOf(before)), a.span, a.name)
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
	r.addSummary(Summary{Act: a.name}, signer, began)
	if err != nil {
		return err
	}
	if _, _, err := r.Profile.Policy.ManifestFrom(e, pagesAt(ctx, at.files)); err != nil {
		return fmt.Errorf("judging the signed revision, which was not written: %w", err)
	}
	if err := r.supersede(ctx, at, superseded, bundle); err != nil {
		return err
	}
	r.Report(ctx, "revision %d written to %s, supersedes %s: %s", next.Revision, at.files.URI(), next.Supersedes, next.Change)
	return r.copyToStage(ctx, otherStage(r.at), superseded, bundle)
}

func otherStage(s profile.Stage) profile.Stage {
	if s == profile.Release {
		return profile.Staging
	}
	return profile.Release
}

// supersede replaces a manifest and reads the new one back as a verifier
// does.
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

// overtaken reports a concurrent revision of the manifest.
func (r Revision) overtaken(ctx context.Context, at place, cause error) error {
	m, _, err := r.manifest(ctx, at.files)
	if err != nil {
		return fmt.Errorf("revising the manifest of %s, which was changed at the same time: %w", at.files.URI(), errors.Join(err, cause))
	}
	return verdict.Refuse(verdict.Equivocation, at.files.URI(),
		"revision %d was published first (%s); ours was signed but not published: review that revision, then revise again", m.Revision, m.Change)
}

// copyToStage also replaces the superseded manifest at another stage. If that
// stage has a different manifest, it is kept and reported.
func (r Revision) copyToStage(ctx context.Context, s profile.Stage, superseded digest.Digest, bundle []byte) error {
	at, err := r.place(s)
	if err != nil {
		return err
	}
	err = store.Replace(ctx, at.files, at.writer, releasemanifest.Name, store.Replacement{Old: superseded, New: bundle, MediaType: plan.MediaBundle})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case errors.Is(err, store.ErrChanged):
		r.Report(ctx, "%s has a different manifest than the superseded one and was not changed", at.files.URI())
		return nil
	case err != nil:
		return fmt.Errorf("the revision is at the %s place; writing it to the %s place, too: %w", otherStage(s), s, err)
	}
	r.Report(ctx, "revision also written to %s", at.files.URI())
	return nil
}
