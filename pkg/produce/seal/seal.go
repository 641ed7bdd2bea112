package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Run makes the manifest from plan and verified provenance, signs it and
// writes it, last, beside the files. A release that is sealed already with
// equal content is not changed.
func Run(ctx context.Context, req Request) (manifest.Manifest, error) {
	if err := req.Workspace.Sweep(ctx); err != nil {
		return manifest.Manifest{}, err
	}
	m, err := list(ctx, req)
	if err != nil {
		return manifest.Manifest{}, err
	}
	before, already := sealedAlready(ctx, req, m)
	switch {
	case already && before.Withdrawn != nil:
		return manifest.Manifest{}, withdrawn(before)
	case already:
		dropDraft(req)
		req.Report(ctx, "sealed already: %s", plural.Of(len(m.Artifacts), "artifact"))
		return before, nil
	case before.Revision > 1:
		return manifest.Manifest{}, verdict.Refuse(verdict.Equivocation, releasemanifest.Name,
			"revision %d has other content; use --amend to seal the next revision", before.Revision)
	case before.Revision > 0 && req.Plan.IsGiven():
		return manifest.Manifest{}, resealError("the new manifest has the same bytes with other evidence")
	}
	m, statement, err := draft(ctx, req, req.signedIn(ctx, m, manifest.RunSeal))
	if err != nil {
		return manifest.Manifest{}, err
	}
	bundle, _, err := req.Signer.Statement(ctx, statement)
	if err != nil {
		return manifest.Manifest{}, err
	}
	err = writeManifest(ctx, req, m, bundle)
	if err != nil {
		return manifest.Manifest{}, fmt.Errorf("writing the manifest: %w", err)
	}
	dropDraft(req)
	req.Report(ctx, "sealed %s", plural.Of(len(m.Artifacts), "artifact"))
	return m, nil
}

// sealedAlready reports whether the manifest in the workspace is the release
// identity's and equals m, except for time, revisions and runs. It returns
// that manifest, if there is a valid one.
func sealedAlready(ctx context.Context, req Request, m manifest.Manifest) (manifest.Manifest, bool) {
	before, e, err := signedManifest(ctx, req)
	if err != nil {
		return manifest.Manifest{}, false
	}
	m.SealedOn, m.Revision, m.Supersedes = before.SealedOn, before.Revision, before.Supersedes
	m.Change, m.Withdrawn, m.Former = before.Change, before.Withdrawn, before.Former
	statement, err := asBefore(m, before).Statement()
	if err != nil {
		return before, false
	}
	return before, bytes.Equal(statement.Raw(), e.Statement().Raw())
}

// sourceOf is the source of the manifest, by the record of the workspace. The
// record proves nothing: see [provenances].
func sourceOf(req Request) manifest.Source {
	c := req.Workspace.Identity().Commit
	return manifest.Source{Repository: c.Repository, Ref: c.Ref, Commit: c.Commit, Tree: c.Tree}
}

func newManifest(ctx context.Context, req Request, p proven) (manifest.Manifest, error) {
	m := manifest.Manifest{
		Name: req.Plan.Name, Version: req.Plan.Version, Revision: 1, SealedOn: req.Clock().UTC(),
		Source:   sourceOf(req),
		FilesURI: req.Plan.Files, ImagesURI: req.Plan.Images,
		Runs: []manifest.Run{req.first()},
	}
	var findings []verdict.Finding
	for _, a := range req.Plan.Artifacts {
		if a.IsStatement() {
			continue // made last, about all others
		}
		entry, err := bind(ctx, req, p, a)
		if err != nil {
			findings = append(findings, verdict.FindingOf(a.Name, err))
			continue
		}
		m.Artifacts = append(m.Artifacts, entry)
		switch a.Name {
		case plan.ConfigName:
			m.Config = entry.Digests.SHA256
		case plan.LockName:
			m.Lock = entry.Digests.SHA256
		}
	}
	if len(findings) == 0 {
		findings, err := addStatements(ctx, req, &m)
		if err != nil {
			return manifest.Manifest{}, err
		}
		return m, findingsError(req, findings)
	}
	return m, findingsError(req, findings)
}

// bind joins one planned artifact with its bytes and its evidence.
func bind(ctx context.Context, req Request, p proven, a plan.Artifact) (manifest.Artifact, error) {
	if a.IsImage() {
		return bindImage(ctx, req, p, a)
	}
	set, size, err := hashFile(ctx, req.Workspace.Files(), a.Name)
	if errors.Is(err, store.ErrNotFound) {
		return manifest.Artifact{}, missing(req, a.Name)
	}
	if err != nil {
		return manifest.Artifact{}, err
	}
	entry := manifest.Artifact{Artifact: a, Digests: set, Size: size}
	if p.needsProof(a) && !p.bytes[a.Name].Equal(set) {
		return manifest.Artifact{}, unproven(a.Name, p.bytes[a.Name], set)
	}
	p.hashed[a.Name] = set
	if req.Plan.IsGiven() {
		carried(&entry)
	}
	if a.IsBuilt() {
		entry.Provenance = plan.ProvenanceName(a.Step)
		if a.Has(plan.KindSBOM) {
			entry.SBOM = plan.SBOMName(a.Name)
		}
	}
	if of, is := a.SignedBySig(); is {
		return entry, checkLegacy(ctx, req, of)
	}
	if _, signed := req.Plan.Find(plan.BundleName(a.Name)); signed {
		entry.Signature = plan.BundleName(a.Name)
		return entry, checkSigned(ctx, req, entry)
	}
	return entry, nil
}

func checkSigned(ctx context.Context, req Request, a manifest.Artifact) error {
	raw, err := readFile(ctx, req, a.Signature)
	if errors.Is(err, store.ErrNotFound) {
		return verdict.Refuse(verdict.Unsigned, a.Name, "no signature yet").Advise("sign first: waybill sign " + req.Plan.Version.String() + " --confirm")
	}
	if err != nil {
		return verdict.Wrap(verdict.Unsigned, a.Name, err)
	}
	return checkBlob(req, a.Name, a.Digests, raw)
}

func bindImage(ctx context.Context, req Request, p proven, a plan.Artifact) (manifest.Artifact, error) {
	d, raw, err := findImage(ctx, req, a)
	if err != nil {
		return manifest.Artifact{}, err
	}
	set := digest.SetOf(raw)
	if !p.bytes[a.Name].Equal(set) {
		return manifest.Artifact{}, unproven(a.Name, p.bytes[a.Name], set)
	}
	signature, err := signatureOf(ctx, req, a, d)
	if err != nil {
		return manifest.Artifact{}, err
	}
	if signature.IsZero() {
		return manifest.Artifact{}, verdict.Refuse(verdict.Unsigned, a.Name, "the image has no signature of the release identity")
	}
	entry := manifest.Artifact{
		Artifact: a, Digests: set, Size: int64(len(raw)), Signature: signature.String(),
	}
	entry.MediaType = d.MediaType
	if req.Plan.IsGiven() {
		carried(&entry)
		return entry, nil
	}
	entry.Provenance = plan.ProvenanceName(a.Step)
	if a.Has(plan.KindSBOM) {
		entry.SBOM = plan.SBOMName(a.Name)
	}
	return entry, nil
}

func unproven(name string, want, got digest.Set) error {
	return verdict.Refuse(verdict.NotBound, name, "the bytes differ from those in the builder's provenance").Differ(want.SHA256.String(), got.SHA256.String()).
		Advise("restore the file that was built, or build it again")
}

// writeManifest writes a signed manifest, after the pages of its list, if it has any.
// Pages are named by their digest: leftover pages of an interrupted run are
// in no manifest, so they are never promoted.
func writeManifest(ctx context.Context, req Request, m manifest.Manifest, bundle []byte) error {
	to := req.Workspace.Writer()
	_, err := m.Seal(func(p manifest.Page, raw []byte) error {
		return to.Put(ctx, p.Name, p.Size, bytes.NewReader(raw), store.PutOptions{MediaType: manifest.PageMedia})
	})
	if err != nil {
		return err
	}
	return to.Put(ctx, releasemanifest.Name, int64(len(bundle)), bytes.NewReader(bundle), store.PutOptions{})
}

// openPages opens the pages of a manifest that was signed before.
func openPages(ctx context.Context, req Request) manifest.Opener {
	return func(name string) ([]byte, error) {
		return store.Read(ctx, req.Workspace.Files(), name, manifest.MaxPage)
	}
}
