package seal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxReason limits a reason: one line for people.
const maxReason = 300

// Amend drafts the next revision of a sealed release: the same names and
// bytes, with the evidence that is in the workspace now. Anything else in the
// workspace is refused, as by [Run]. Nothing is signed.
func Amend(ctx context.Context, req Request, reason string) (manifest.Manifest, error) {
	if err := checkReason(reason); err != nil {
		return manifest.Manifest{}, err
	}
	before, e, err := signedManifest(ctx, req)
	if err != nil {
		return manifest.Manifest{}, err
	}
	if before.Withdrawn != nil {
		return manifest.Manifest{}, withdrawn(before)
	}
	if req.Plan.IsGiven() {
		req.imported = importedBefore(req.Plan, before)
	}
	fresh, err := list(ctx, req)
	if err != nil {
		return manifest.Manifest{}, err
	}
	change := sameEvidence
	if names := fresh.Rebound(before); len(names) > 0 {
		change = fmt.Sprintf("evidence changed for %s, the first is %s", plural.Of(len(names), "artifact"), names[0])
	}
	if reason != "" {
		change += ": " + reason
	}
	next := before.Revise(e.Bundle(), change)
	next.Artifacts, next.Source, next.Config, next.Lock = fresh.Artifacts, fresh.Source, fresh.Config, fresh.Lock
	next.FilesURI, next.ImagesURI, next.SealedOn = fresh.FilesURI, fresh.ImagesURI, fresh.SealedOn
	return next, next.Follows(before, e.Bundle())
}

// Again drafts the next revision of a manifest whose bundle has the given
// digest: the same content, sealed again. Nothing is signed.
func Again(before manifest.Manifest, bundle digest.Digest, reason string, now time.Time) (manifest.Manifest, error) {
	if err := checkReason(reason); err != nil {
		return manifest.Manifest{}, err
	}
	if before.Withdrawn != nil {
		return manifest.Manifest{}, withdrawn(before)
	}
	change := sameEvidence
	if reason != "" {
		change += ": " + reason
	}
	next := before.Revise(bundle, change)
	next.SealedOn = now.UTC()
	return next, next.Follows(before, bundle)
}

const sameEvidence = "sealed again with the same evidence"

// Withdraw drafts the revision that says that the release must no longer be
// used. It needs only the manifest of the release. Nothing is signed.
func Withdraw(ctx context.Context, req Request, w manifest.Withdrawal) (manifest.Manifest, error) {
	if err := checkWithdrawal(w); err != nil {
		return manifest.Manifest{}, err
	}
	before, e, err := signedManifest(ctx, req)
	if err != nil {
		return manifest.Manifest{}, err
	}
	return Withdrawn(before, e.Bundle(), w, req.Clock())
}

// Withdrawn is [Withdraw] for a manifest whose bundle has the given digest,
// wherever it is.
func Withdrawn(before manifest.Manifest, bundle digest.Digest, w manifest.Withdrawal, now time.Time) (manifest.Manifest, error) {
	if err := checkWithdrawal(w); err != nil {
		return manifest.Manifest{}, err
	}
	if before.Withdrawn != nil {
		return manifest.Manifest{}, withdrawn(before)
	}
	next := before.Revise(bundle, "withdrawn: "+w.Reason)
	next.Withdrawn, next.SealedOn = &w, now.UTC()
	return next, next.Follows(before, bundle)
}

func checkWithdrawal(w manifest.Withdrawal) error {
	if w.Reason == "" {
		return verdict.Refuse(verdict.Usage, "--reason", "required: say why the release must no longer be used; verifiers show this text")
	}
	return errors.Join(checkReason(w.Reason), checkReason(w.Use))
}

// Revise signs a revision that [Amend] or [Withdraw] drafted, and replaces
// the previous manifest, which is kept outside of the files. If the current
// manifest is not the one that the revision supersedes, nothing is signed.
func Revise(ctx context.Context, req Request, next manifest.Manifest) error {
	if err := req.Workspace.Sweep(ctx); err != nil {
		return err
	}
	before, e, err := signedManifest(ctx, req)
	if err != nil {
		return err
	}
	if err := next.Follows(before, e.Bundle()); err != nil {
		return err
	}
	kind := manifest.RunAmend
	if next.Withdrawn != nil {
		kind = manifest.RunWithdraw
	}
	next, statement, err := draft(ctx, req, req.signedIn(ctx, next, kind))
	if err != nil {
		return err
	}
	signed, _, err := req.Signer.Statement(ctx, statement)
	if err != nil {
		return err
	}
	if err := keepRevision(ctx, req, before.Revision); err != nil {
		return fmt.Errorf("storing revision %d: %w", before.Revision, err)
	}
	err = writeManifest(ctx, req, next, signed)
	if err != nil {
		return fmt.Errorf("writing revision %d of the manifest: %w", next.Revision, err)
	}
	dropDraft(req)
	req.Report(ctx, "sealed revision %d, which supersedes %s: %s", next.Revision, next.Supersedes, next.Change)
	return nil
}

// keepRevision copies the bundle that is about to be superseded. It is not a file of
// the release, but the revision has its signed digest.
func keepRevision(ctx context.Context, req Request, revision int) error {
	raw, err := readFile(ctx, req, releasemanifest.Name)
	if err != nil {
		return err
	}
	return req.Workspace.Keep(fmt.Sprintf("revisions/%d.%s", revision, releasemanifest.Name), raw)
}

// signedManifest is the manifest that the release identity signed before, and its
// evidence.
func signedManifest(ctx context.Context, req Request) (manifest.Manifest, verify.Evidence, error) {
	raw, err := readFile(ctx, req, releasemanifest.Name)
	if errors.Is(err, store.ErrNotFound) {
		err = verdict.Refuse(verdict.EvidenceMissing, releasemanifest.Name, "no sealed release in this state directory").
			Advise("run waybill seal without --amend or --withdraw first, or use --at release to revise the public release")
	}
	if err != nil {
		return manifest.Manifest{}, verify.Evidence{}, err
	}
	e, err := req.Verifier.Attestation(raw)
	if err != nil {
		return manifest.Manifest{}, verify.Evidence{}, err
	}
	m, _, err := req.Policy.ManifestFrom(e, openPages(ctx, req))
	if err != nil {
		return manifest.Manifest{}, verify.Evidence{}, err
	}
	if id := req.Workspace.Identity(); m.Name != id.Name || m.Version != id.Version {
		return manifest.Manifest{}, verify.Evidence{}, verdict.Refuse(verdict.Version, releasemanifest.Name, "the file is the manifest of %s %s", m.Name, m.Version)
	}
	return m, e, nil
}

func withdrawn(m manifest.Manifest) error {
	return verdict.Refuse(verdict.Withdrawn, releasemanifest.Name, "revision %d withdrew the release, which cannot be undone: %s", m.Revision, m.Withdrawn.Reason)
}

// checkReason refuses a text that might be displayed differently than it is.
func checkReason(text string) error {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) }
	if len(text) > maxReason || !utf8.ValidString(text) || strings.ContainsFunc(text, hidden) {
		return verdict.Refuse(verdict.Usage, "--reason", "want one line of up to %d printable bytes", maxReason)
	}
	return nil
}

// list is the content of the manifest: every planned artifact with its bytes
// and its evidence, in order.
func list(ctx context.Context, req Request) (manifest.Manifest, error) {
	if err := checkExtra(ctx, req); err != nil {
		return manifest.Manifest{}, err
	}
	p, err := provenances(ctx, req)
	if err != nil {
		return manifest.Manifest{}, err
	}
	m, err := newManifest(ctx, req, p)
	if err != nil {
		return manifest.Manifest{}, err
	}
	slices.SortFunc(m.Artifacts, func(a, b manifest.Artifact) int { return strings.Compare(a.Name, b.Name) })
	if err := crossCheck(ctx, req, p); err != nil {
		return m, err
	}
	if err := checkSBOMList(ctx, req, m); err != nil {
		return m, findingsError(req, []verdict.Finding{verdict.FindingOf(sbomlist.Name, err)})
	}
	return m, nil
}
