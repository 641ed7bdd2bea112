package gate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// documents are the SBOMs of a release, and what they are held against. Each
// is read once, compared and let go.
type documents struct {
	artifacts []sbomcheck.Artifact
	goSum     map[string]string
	images    map[string]*registry.Node // as the registry serves them, by index

	mu    sync.Mutex // guards what follows: artifacts are judged side by side
	read  map[string]sbomcheck.Artifact
	saved []sbomcheck.Artifact // files that hold images
	whole map[string][]string  // what documents say that they leave out
	blind map[string]bool      // programs whose modules were held against no go.sum
}

// prepareDocuments collects what is published beside the SBOMs.
func (s *sealed) prepareDocuments(ctx context.Context) *documents {
	all := &documents{
		images: map[string]*registry.Node{}, read: map[string]sbomcheck.Artifact{}, whole: map[string][]string{}, blind: map[string]bool{},
	}
	for _, a := range s.manifest.Artifacts {
		all.artifacts = append(all.artifacts, s.manifest.crossed(a))
	}
	raw, err := s.listed(ctx, plan.LockName)
	if err != nil {
		return all // what is wrong with a listed lock is found elsewhere
	}
	if lock, err := plan.ParseLock(raw); err == nil && len(lock.Modules) > 0 {
		all.goSum = sbomcheck.Locked(lock)
	}
	return all
}

func (m signedManifest) crossed(a manifest.Artifact) sbomcheck.Artifact {
	return sbomcheck.Artifact{
		Name: a.Name, Version: m.Version.String(), Platform: a.Platform, Bare: a.Class == plan.Binary, Digests: a.Digests,
	}
}

// documentOf is the SBOM that the manifest names for an artifact.
func (g gathered) documentOf(ctx context.Context, a manifest.Artifact) (spdx.Document, error) {
	if a.SBOM == "" {
		return spdx.Document{}, verdict.Refuse(verdict.NoSBOM, a.Name, "the manifest names no SBOM for it")
	}
	raw, err := g.release.listed(ctx, a.SBOM)
	if err != nil {
		return spdx.Document{}, evidenceError(verdict.NoSBOM, a.Name, a.SBOM, err)
	}
	document, err := parseSBOM(string(raw))
	if err != nil {
		return spdx.Document{}, verdict.Wrap(codeOf(err), a.Name, err)
	}
	if _, described := document.Describes(); described.IsZero() {
		return spdx.Document{}, verdict.Refuse(verdict.SBOMSubject, a.Name, "its SBOM %s names no bytes that it describes", a.SBOM)
	}
	return document, nil
}

// parseSBOM reads a document that hangs together, and whose roll-ups of files
// are right: one from which files were taken is not what was written.
func parseSBOM(text string) (spdx.Document, error) {
	document, report := spdx.Validate(text)
	for _, f := range report.Faults {
		switch code := f.Code(); code {
		case verdict.SBOMInvalid: // poor, but not to be misread
		default:
			return spdx.Document{}, f
		}
	}
	if document.IsZero() || report.Version != spdx.Version {
		return spdx.Document{}, verdict.Refuse(verdict.NoSBOM, "", "its SBOM is of version %.20q, want %s", report.Version, spdx.Version)
	}
	return document, nil
}

// codeOf tells a document that hangs together badly from one that is none.
func codeOf(err error) verdict.Code {
	var f spdx.Fault
	if !errors.As(err, &f) {
		return verdict.NoSBOM
	}
	switch code := f.Code(); code {
	case verdict.SBOMGraph, verdict.SBOMIncomplete, verdict.Limit:
		return code
	}
	return verdict.NoSBOM
}

// cross holds the SBOM of an artifact, which describes its bytes, against
// everything else that is known of the release.
func (g gathered) cross(ctx context.Context, a manifest.Artifact, document spdx.Document) []verdict.Finding {
	about := g.release.manifest.crossed(a)
	about.Document, about.DocumentDigest, about.Namespace = document, g.release.manifest.digestOf(a.SBOM), document.Namespace()
	facts := sbomcheck.Release{Artifacts: g.sboms.artifacts}
	node := g.sboms.images[a.Name]
	switch {
	case node != nil:
		facts.Images = map[string]sbomcheck.Image{a.Name: node.Served()}
	case a.Class == plan.Binary:
		facts.GoSum = g.sboms.goSum
	}
	findings := facts.About(about)
	g.sboms.keep(about)
	if g.release.Options.Inside == nil {
		return findings
	}
	within, err := g.within(ctx, a, about)
	if err != nil {
		return append(findings, verdict.FindingOf(a.Name, err))
	}
	return append(findings, within...)
}

func (m signedManifest) digestOf(name string) digest.Digest {
	a, _ := m.Find(name)
	return a.Digests.SHA256
}

// keep remembers of a document what is compared when all have been read.
func (d *documents) keep(about sbomcheck.Artifact) {
	omitted := sbomcheck.Omitted(about.Document)
	sums := about.Bare && sbomcheck.HasSums(about.Document)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(omitted) > 0 {
		d.whole[about.Name] = omitted
	}
	if sums && (d.goSum == nil || sbomcheck.Elsewhere(about.Document)) {
		d.blind[about.Name] = true
	}
	if d.images[about.Name] == nil && sbomcheck.HoldsImage(about.Document) {
		d.saved = append(d.saved, about)
	}
	about.Document = spdx.Document{}
	d.read[about.Name] = about
}

// within reads an artifact again and compares what is in it.
func (g gathered) within(ctx context.Context, a manifest.Artifact, about sbomcheck.Artifact) ([]verdict.Finding, error) {
	if node := g.sboms.images[a.Name]; node != nil {
		found, err := g.release.Options.Inside.Image(ctx, about, g.release.Images, a.Repository, node)
		if err != nil {
			return nil, err
		}
		attached, err := g.attached(ctx, a, node)
		return append(found.Findings, attached...), err
	}
	body, err := g.release.openFile(ctx, a.Name)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	found, err := g.release.Options.Inside.File(ctx, about, body)
	if err == nil && !found.Digests.SHA256.Equal(a.Digests.SHA256) {
		return nil, verdict.Refuse(verdict.Tampered, a.Name, "it changed while it was verified")
	}
	return found.Findings, err
}

// attached compares the SBOMs that the release identity attached to an image
// in the registry, for those who ask there, with what they are attached to.
func (g gathered) attached(ctx context.Context, a manifest.Artifact, index *registry.Node) (findings []verdict.Finding, err error) {
	err = index.Walk(func(n *registry.Node) error {
		refers, err := g.release.reader.evidenceOf(ctx, a.Repository, n.Descriptor.Digest)
		if err != nil {
			return err
		}
		for _, e := range refers.holds {
			ask := policy.Ask{
				Role: policy.Release, Kind: intoto.SPDXDocument, Stage: g.release.Stage, Class: a.Class, Subject: a.Name, Bytes: digest.Set{SHA256: n.Descriptor.Digest}, InRegistry: true,
			}
			if _, err := g.release.Policy.Judge(e, ask); err != nil {
				continue // another statement, or another role
			}
			document, err := parseSBOM(string(e.Statement().Predicate()))
			if _, described := document.Describes(); err != nil || !described.Equal(n.Descriptor.Digest) {
				findings = append(findings, verdict.Find(verdict.SBOMSubject, a.Name, "the SBOM that is attached to it in the registry describes something else").
					Differ(n.Descriptor.Digest.String(), described.String()).Citing(e.Bundle()))
				continue
			}
			more, err := g.attachedTo(ctx, a, n, document)
			if err != nil {
				return err
			}
			findings = append(findings, more...)
		}
		return nil
	})
	return findings, err
}

// attachedTo looks into one image, of one platform or of all, for what an SBOM
// says that describes it.
func (g gathered) attachedTo(ctx context.Context, a manifest.Artifact, n *registry.Node, document spdx.Document) ([]verdict.Finding, error) {
	name, _ := document.Describes()
	about := sbomcheck.Artifact{
		Name: name, Version: g.release.manifest.Version.String(), Digests: digest.Set{SHA256: n.Descriptor.Digest}, Document: document,
	}
	facts := sbomcheck.Release{Images: map[string]sbomcheck.Image{name: n.Served()}}
	found, err := g.release.Options.Inside.Image(ctx, about, g.release.Images, a.Repository, n)
	return append(facts.About(about), found.Findings...), err
}

// checkDocuments compares what only all documents together say: that of the
// release, and files that hold images.
func checkDocuments(ctx context.Context, g gathered) (f facts) {
	mode := policy.Off
	for _, class := range g.release.manifest.classes() {
		if m := g.release.Policy.Asks(g.release.Stage, class, policy.SBOM); m == policy.Require || m == policy.Warn && mode == policy.Off {
			mode = m
		}
	}
	if mode == policy.Off || g.release.asked != nil {
		return f
	}
	images := map[string]sbomcheck.Image{}
	for name, node := range g.sboms.images {
		images[name] = node.Served()
	}
	for _, a := range g.sboms.saved {
		findings, compared := sbomcheck.Saved(a, images)
		if !compared {
			f.note("%s holds an image, and the release serves none of its name: it was compared with no registry", a.Name)
		}
		f.weigh(mode, findings...)
	}
	var whole spdx.Document
	if name := g.planned.SBOMs.Release; name != "" && g.holds(name) {
		var found []verdict.Finding
		whole, found = g.checkWhole(ctx, name)
		followAll(&f, mode, found)
	}
	if name := g.planned.SBOMs.Source; name != "" && g.holds(name) {
		followAll(&f, mode, g.checkSourceSBOM(ctx, name, whole))
	}
	g.sboms.sayOmitted(&f)
	return f
}

// followAll reports what nothing was found about already.
func followAll(f *facts, mode policy.Mode, found []verdict.Finding) {
	for _, one := range found {
		f.follow(one.Subject, mode, one)
	}
}

// checkSourceSBOM holds the document about the source against that of the release,
// which refers to it, and its modules against the lock.
func (g gathered) checkSourceSBOM(ctx context.Context, name string, whole spdx.Document) []verdict.Finding {
	raw, err := g.release.listed(ctx, name)
	if err != nil {
		return nil // that it is not there is found by plan and census
	}
	document, err := parseSBOM(string(raw))
	if err != nil {
		return []verdict.Finding{verdict.FindingOf(name, verdict.Wrap(codeOf(err), name, err))}
	}
	a := sbomcheck.Artifact{
		Name: name, Version: g.release.manifest.Version.String(), Document: document, DocumentDigest: g.release.manifest.digestOf(name), Namespace: document.Namespace(),
	}
	findings := append(sbomcheck.Source(a, whole), sbomcheck.Named(a)...)
	return append(findings, sbomcheck.Known(a, g.sboms.goSum)...)
}

// checkWhole holds the document about the release against its artifacts and
// their documents.
func (g gathered) checkWhole(ctx context.Context, name string) (spdx.Document, []verdict.Finding) {
	raw, err := g.release.listed(ctx, name)
	if err != nil {
		return spdx.Document{}, nil // that it is not there is found by plan and census
	}
	document, err := parseSBOM(string(raw))
	if err != nil {
		return spdx.Document{}, []verdict.Finding{verdict.FindingOf(name, verdict.Wrap(codeOf(err), name, err))}
	}
	if f := sbomcheck.Whole(document, name, g.release.manifest.Name+" "+g.release.manifest.Version.String()); len(f) > 0 {
		return spdx.Document{}, f
	}
	var artifacts []sbomcheck.Artifact
	for _, a := range g.release.manifest.Artifacts {
		if !isBuilt(a) || a.Class == plan.ImageChild {
			continue
		}
		about := g.release.manifest.crossed(a)
		if read, known := g.sboms.read[a.Name]; known {
			about = read
		}
		artifacts = append(artifacts, about)
	}
	return document, sbomcheck.Listed(document, artifacts)
}

// sayOmitted says what the documents themselves leave out, and what could not
// be compared.
func (d *documents) sayOmitted(f *facts) {
	if names := sortedKeys(d.whole); len(names) > 0 {
		f.note("the SBOMs of %s leave something out, the first: %s: %s", plural.Of(len(names), "artifact"), names[0], d.whole[names[0]][0])
	}
	if names := sortedKeys(d.blind); len(names) > 0 {
		f.note("the module checksums of %s were compared with no go.sum, which neither the lock nor the release has: %s", plural.Of(len(names), "program"), some(names))
	}
}

// some are the first names of a list.
func some(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:few], ", ") + ", …"
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
