package pipeline

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/produce/checkout"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/produce/seal"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// whole writes the documents about the whole release: of its source, if
// planned, and of everything that was built from it.
func (d *describer) whole(ctx context.Context) error {
	source, err := d.source(ctx)
	if err != nil {
		return err
	}
	made, err := sbom.Release(d.in, slices.Concat(d.all, d.plain), source)
	if err != nil {
		return err
	}
	_, err = d.write(ctx, d.plan.SBOMs.Release, made)
	return err
}

// source describes the source of the commit. The entry is zero if none is
// planned.
func (d *describer) source(ctx context.Context) (sbom.Entry, error) {
	name := d.plan.SBOMs.Source
	if name == "" {
		return sbom.Entry{}, nil
	}
	scratch, err := d.w.Scratch("source")
	if err != nil {
		return sbom.Entry{}, err
	}
	defer func() { _ = sandbox.Remove(ctx, scratch) }()
	dir := filepath.Join(scratch, "src")
	if err := checkOut(ctx, d.w.Identity().Commit, dir); err != nil {
		return sbom.Entry{}, err
	}
	made, err := sbom.Directory(d.in, "source", os.DirFS(dir), d.find)
	if err != nil {
		return sbom.Entry{}, fmt.Errorf("describing the source: %w", err)
	}
	document, err := d.write(ctx, name, made)
	if err != nil {
		return sbom.Entry{}, err
	}
	d.examined.Agree(name, seal.ContentOf(d.w.Identity().Commit), digest.Of(digest.SHA256, document))
	return sbom.Entry{Artifact: "source", Digests: made.Digests, SBOM: name, SBOMDigest: digest.SetOf(document)}, nil
}

// checkOut checks out the source as a build does: in a sandbox if possible,
// and verified.
func checkOut(ctx context.Context, c git.Commit, dir string) error {
	repo, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer repo.Close()
	return checkout.Checkout(ctx, sandbox.Examine(ctx).Mode, repo, c, dir)
}

// write writes a document in the format that its name demands.
func (d *describer) write(ctx context.Context, name string, made sbom.Made) ([]byte, error) {
	d.modules.Declare(&made.Draft)
	encode := made.Encode
	if strings.HasSuffix(name, ".spdx") {
		encode = func() ([]byte, error) { return spdx.EncodeTagValue(made.Draft) }
	}
	document, err := encode()
	if err != nil {
		return nil, err
	}
	return document, d.put(ctx, name, document)
}
