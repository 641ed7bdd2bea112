package seal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/produce/checkout"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// source compares the SBOM of the source, if one is planned, with that of the
// release, which refers to it, and with the commit, read again: every file
// and every module.
func (c *crossing) source(ctx context.Context, whole spdx.Document) ([]verdict.Finding, error) {
	name := c.Plan.SBOMs.Source
	if name == "" {
		return nil, nil
	}
	document, text, err := c.document(ctx, name)
	if err != nil {
		return nil, err
	}
	a := sbomcheck.Artifact{
		Name: name, Version: c.Plan.Version.String(), Document: document, DocumentDigest: digest.Of(digest.SHA256, text), Namespace: document.Namespace(),
	}
	findings := append(sbomcheck.Source(a, whole), sbomcheck.Named(a)...)
	commit := ContentOf(c.Workspace.Identity().Commit)
	if c.Examined.Agreed(name, commit, a.DocumentDigest) {
		return findings, nil
	}
	made, err := c.describeSource(ctx)
	if err != nil {
		return nil, err
	}
	if made.Draft.Namespace != a.Namespace {
		findings = append(findings, verdict.Find(verdict.SBOMSubject, name, "the SBOM of the source describes other files than the commit has").
			Differ(made.Draft.Namespace, a.Namespace))
	}
	findings = append(findings, sbomcheck.Files(a, made.Draft.Files)...)
	findings = append(findings, sbomcheck.Components(a, made.Draft)...)
	if len(findings) == 0 {
		c.Examined.Agree(name, commit, a.DocumentDigest)
	}
	return findings, nil
}

// ContentOf identifies the content of a commit, by its IDs.
func ContentOf(c git.Commit) digest.Digest {
	return digest.Of(digest.SHA256, []byte(c.Commit+" "+c.Tree))
}

// describeSource describes a checkout of the commit.
func (c *crossing) describeSource(ctx context.Context) (sbom.Made, error) {
	scratch, err := c.Workspace.Scratch("source")
	if err != nil {
		return sbom.Made{}, err
	}
	defer func() { _ = sandbox.Remove(ctx, scratch) }()
	commit, dir := c.Workspace.Identity().Commit, filepath.Join(scratch, "src")
	repo, err := commit.Open(ctx)
	if err != nil {
		return sbom.Made{}, err
	}
	defer repo.Close()
	if err := checkout.Checkout(ctx, sandbox.Examine(ctx).Mode, repo, commit, dir); err != nil {
		return sbom.Made{}, err
	}
	made, err := sbom.Directory(sbom.Input{
		Name: c.Plan.Name, Version: c.Plan.Version.String(), Created: commit.Time, Namespace: c.Plan.Files,
	}, sbomcheck.SourceName, os.DirFS(dir), nil)
	if err != nil {
		return sbom.Made{}, fmt.Errorf("describing the source: %w", err)
	}
	return made, nil
}

// document reads an SBOM in either format, with its bytes. A file in another
// format is refused by name.
func (c *crossing) document(ctx context.Context, name string) (spdx.Document, []byte, error) {
	text, err := c.read(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return spdx.Document{}, nil, missing(c.Request, name)
	}
	if err != nil {
		return spdx.Document{}, nil, err
	}
	document, report := spdx.Validate(string(text))
	if len(report.Faults) > 0 {
		return spdx.Document{}, nil, verdict.Wrap(report.Faults[0].Code(), name, fmt.Errorf("reading the SBOM %q: %w", name, report.Faults[0]))
	}
	if document.IsZero() {
		return spdx.Document{}, nil, verdict.Refuse(verdict.StatementParse, name, "not an SPDX document")
	}
	return document, text, nil
}
