package seal

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// KeepSBOM stores the SBOM of one platform of an image until it is signed and
// attached. It is not a file of the release.
func KeepSBOM(w *workspace.Workspace, artifact string, document []byte) error {
	path := keptSBOM(w, artifact)
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, document) {
		return nil
	}
	return w.Keep("attached/"+plan.SBOMName(artifact), document)
}

func keptSBOM(w *workspace.Workspace, artifact string) string {
	return filepath.Join(w.Dir(), "attached", filepath.FromSlash(plan.SBOMName(artifact)))
}

// imageSBOM is the document that is attached to an image, or to one platform
// of it; nil if none is planned.
func imageSBOM(ctx context.Context, req Request, a plan.Artifact, d registry.Descriptor) ([]byte, error) {
	if a.Class == plan.Image {
		if !a.Has(plan.KindSBOM) {
			return nil, nil
		}
		return readFile(ctx, req, plan.SBOMName(a.Name))
	}
	if of, _ := req.Plan.Find(a.Of); !of.Has(plan.KindSBOM) {
		return nil, nil
	}
	document, err := os.ReadFile(keptSBOM(req.Workspace, a.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, verdict.Refuse(verdict.SealMissing, a.Name, "no SBOM of this platform was written").
			Advise("write the SBOMs first: waybill sbom " + req.Plan.Version.String())
	}
	if err != nil {
		return nil, err
	}
	return document, checkChild(ctx, req, a, d, document)
}

// checkChild compares the document of one platform with its image.
func checkChild(ctx context.Context, req Request, a plan.Artifact, d registry.Descriptor, raw []byte) error {
	document, err := spdx.Parse(raw)
	if err != nil {
		return verdict.Wrap(verdict.FindingOf(a.Name, err).Code, plan.SBOMName(a.Name), err)
	}
	node, err := registry.Graph(ctx, req.Workspace.Images(), a.Repository, d)
	if err != nil {
		return err
	}
	about := sbomcheck.Artifact{Name: a.Name, Version: req.Plan.Version.String(), Document: document}
	about.Digests.SHA256 = d.Digest
	facts := sbomcheck.Release{Images: map[string]sbomcheck.Image{a.Name: node.Served()}}
	return findingsError(req, facts.About(about))
}

// children compares the stored documents for the platforms of an image with
// the contents of each. A missing document is an error only when it has to be
// attached; it is not needed for images that are signed already.
func (c *crossing) children(ctx context.Context, index plan.Artifact, content sbom.ImageContent) (findings []verdict.Finding, err error) {
	for _, a := range c.Plan.Artifacts {
		if a.Class != plan.ImageChild || a.Of != index.Name {
			continue
		}
		raw, err := os.ReadFile(keptSBOM(c.Workspace, a.Name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		document, err := spdx.Parse(raw)
		if err != nil {
			return nil, verdict.Wrap(verdict.FindingOf(a.Name, err).Code, plan.SBOMName(a.Name), err)
		}
		one, err := content.Only(a.Platform)
		if err != nil {
			return nil, err
		}
		about := sbomcheck.Artifact{Name: a.Name, Version: c.Plan.Version.String(), Document: document, Digests: one.Index}
		var found sbomcheck.Found
		if sum := digest.Of(digest.SHA256, raw); !c.Examined.Agreed(a.Name, one.Index.SHA256, sum) {
			if found, err = sbom.WithinImage(ctx, about, one); err != nil {
				return nil, err
			}
			if len(found.Findings) == 0 {
				c.Examined.Agree(a.Name, one.Index.SHA256, sum)
			}
		}
		facts := sbomcheck.Release{Images: map[string]sbomcheck.Image{a.Name: sbom.Served(one)}}
		findings = append(append(findings, facts.About(about)...), found.Findings...)
	}
	return findings, nil
}

// sbomList is the statement that lists the planned SBOMs with their bytes in
// the workspace.
func (l signingInput) sbomList(ctx context.Context) (intoto.Statement, error) {
	m := manifest.Manifest{Name: l.Plan.Name, Version: l.Plan.Version}
	for _, a := range l.Plan.Artifacts {
		if a.Class != plan.SBOM {
			continue
		}
		set, _, err := hashFile(ctx, l.Workspace.Files(), a.Name)
		if err != nil {
			return intoto.Statement{}, err
		}
		m.Artifacts = append(m.Artifacts, manifest.Artifact{Artifact: a, Digests: set})
	}
	return m.SBOMList()
}

// checkSBOMList demands that the list of SBOMs in the workspace, if one is
// planned, is the release identity's and lists the SBOMs of the manifest. An
// SBOM may have changed since the list was signed.
func checkSBOMList(ctx context.Context, req Request, m manifest.Manifest) error {
	if _, planned := req.Plan.Find(sbomlist.Name); !planned {
		return nil
	}
	want, err := m.SBOMList()
	if err != nil {
		return err
	}
	raw, err := readFile(ctx, req, sbomlist.Name)
	if err != nil {
		return err
	}
	return checkStatement(req, sbomlist.Name, want, raw)
}

// checkSignature checks what is in a bundle for a planned signature file.
func checkSignature(req Request, a plan.Artifact, o sign.Order, bundle []byte) error {
	if a.IsSBOMList() {
		return checkStatement(req, a.Name, o.Statement, bundle)
	}
	return checkBlob(req, a.Of, o.Bytes, bundle)
}

// checkStatement demands that the release identity signed exactly this
// statement.
func checkStatement(req Request, name string, want intoto.Statement, bundle []byte) error {
	e, err := req.Verifier.Attestation(bundle)
	if err != nil {
		return err
	}
	if _, err := req.Policy.Judge(e, policy.Ask{Role: policy.Release, Kind: want.PredicateType(), Subject: name, Whole: true}); err != nil {
		return err
	}
	if !equalStatements(e.Statement(), want) {
		return verdict.Refuse(verdict.Conflict, name, "the signed statement differs from the files of the release").
			Advise("sign again: waybill sign " + req.Plan.Version.String() + " --confirm")
	}
	return nil
}
