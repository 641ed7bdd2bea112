package gate

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// documents are the SBOMs of a release, and what they are compared with. Each
// is read once, compared and released.
type documents struct {
	artifacts []sbomcheck.Artifact
	goSum     map[string]string
	images    map[string]*registry.Node // as served by the registry, by index name

	mu    sync.Mutex // guards the fields below: artifacts are judged in parallel
	read  map[string]sbomcheck.Artifact
	saved []sbomcheck.Artifact // files that contain images
	whole map[string][]string  // omissions that the documents declare
	blind map[string]bool      // programs whose modules could not be compared with a go.sum
}

// prepareDocuments collects the published files that SBOMs are compared with.
func (s *sealed) prepareDocuments(ctx context.Context) *documents {
	all := &documents{
		images: map[string]*registry.Node{}, read: map[string]sbomcheck.Artifact{}, whole: map[string][]string{}, blind: map[string]bool{},
		artifacts: slice.Map(s.manifest.Artifacts, s.manifest.sbomFacts),
	}
	raw, err := s.readListed(ctx, plan.LockName)
	if err != nil {
		return all // another check reports an invalid lock
	}
	if lock, err := plan.ParseLock(raw); err == nil && len(lock.Modules) > 0 {
		all.goSum = sbomcheck.Locked(lock)
	}
	return all
}

func (m signedManifest) sbomFacts(a manifest.Artifact) sbomcheck.Artifact {
	return sbomcheck.Artifact{
		Name: a.Name, Version: m.Version.String(), Platform: a.Platform, Bare: a.Class == plan.Binary, Digests: a.Digests,
	}
}

// documentOf is the SBOM that the manifest names for an artifact.
func (g gathered) documentOf(ctx context.Context, a manifest.Artifact) (spdx.Document, error) {
	if a.SBOM == "" {
		return spdx.Document{}, verdict.Refuse(verdict.NoSBOM, a.Name, "the manifest names no SBOM for it")
	}
	raw, err := g.release.readListed(ctx, a.SBOM)
	if err != nil {
		return spdx.Document{}, evidenceError(verdict.NoSBOM, a.Name, a.SBOM, err)
	}
	document, err := parseSBOM(string(raw))
	if err != nil {
		return spdx.Document{}, verdict.Wrap(codeOf(err), a.Name, err)
	}
	if _, described := document.Describes(); described.IsZero() {
		return spdx.Document{}, verdict.Refuse(verdict.SBOMSubject, a.Name, "the SBOM %s gives no digest of what it describes", a.SBOM)
	}
	return document, nil
}

// parseSBOM reads a document that is consistent and whose checksums over lists
// of files are right: a document from which files were removed is refused.
func parseSBOM(text string) (spdx.Document, error) {
	document, report := spdx.Validate(text)
	for _, f := range report.Faults {
		switch code := f.Code(); code {
		case verdict.SBOMInvalid: // incomplete, but not ambiguous
		default:
			return spdx.Document{}, f
		}
	}
	if document.IsZero() || report.Version != spdx.Version {
		return spdx.Document{}, verdict.Refuse(verdict.NoSBOM, "", "the SBOM has SPDX version %.20q, want %s", report.Version, spdx.Version)
	}
	return document, nil
}

// codeOf tells an inconsistent document from one that is no SBOM.
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

// crossCheckSBOM compares the SBOM of an artifact with everything else that is known
// about the release.
func (g gathered) crossCheckSBOM(ctx context.Context, a manifest.Artifact, document spdx.Document) []verdict.Finding {
	about := g.release.manifest.sbomFacts(a)
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
	within, err := g.checkContents(ctx, a, about)
	if err != nil {
		return append(findings, verdict.FindingOf(a.Name, err))
	}
	return append(findings, within...)
}

func (m signedManifest) digestOf(name string) digest.Digest {
	a, _ := m.Find(name)
	return a.Digests.SHA256
}

// keep remembers what is needed of a document once all have been read.
func (d *documents) keep(about sbomcheck.Artifact) {
	omitted := sbomcheck.Omitted(about.Document)
	sums := about.Bare && sbomcheck.HasSums(about.Document)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(omitted) > 0 {
		d.whole[about.Name] = omitted
	}
	if sums && (d.goSum == nil || sbomcheck.BuiltFromFetched(about.Document)) {
		d.blind[about.Name] = true
	}
	if d.images[about.Name] == nil && sbomcheck.HoldsImage(about.Document) {
		d.saved = append(d.saved, about)
	}
	about.Document = spdx.Document{}
	d.read[about.Name] = about
}

// checkContents reads an artifact again and compares its contents with the SBOM.
func (g gathered) checkContents(ctx context.Context, a manifest.Artifact, about sbomcheck.Artifact) ([]verdict.Finding, error) {
	if node := g.sboms.images[a.Name]; node != nil {
		found, err := g.release.Options.Inside.Image(ctx, about, g.release.Images, a.Repository, node)
		if err != nil {
			return nil, err
		}
		attached, err := g.checkAttachedSBOMs(ctx, a, node)
		return append(found.Findings, attached...), err
	}
	body, err := g.release.openFile(ctx, a.Name)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	found, err := g.release.Options.Inside.File(ctx, about, body)
	if err == nil && !found.Digests.SHA256.Equal(a.Digests.SHA256) {
		return nil, verdict.Refuse(verdict.Tampered, a.Name, "the file changed while it was verified")
	}
	return found.Findings, err
}

// checkAttachedSBOMs compares the SBOMs that the release identity attached to an image in
// the registry with that image.
func (g gathered) checkAttachedSBOMs(ctx context.Context, a manifest.Artifact, index *registry.Node) (findings []verdict.Finding, err error) {
	err = index.Walk(func(n *registry.Node) error {
		refers, err := g.release.reader.evidenceOf(ctx, a.Repository, n.Descriptor.Digest)
		if err != nil {
			return err
		}
		for _, e := range refers.holds {
			ask := policy.Ask{
				Role: policy.Release, Kind: e.Kind(), Stage: g.release.Stage, Class: a.Class, Subject: a.Name, Bytes: digest.Set{SHA256: n.Descriptor.Digest}, InRegistry: true,
			}
			if _, err := g.release.Policy.Judge(e, ask); err != nil || !e.Statement().IsSPDX() {
				continue // another statement, or another role
			}
			document, err := parseSBOM(string(e.Statement().Predicate()))
			if _, described := document.Describes(); err != nil || !described.Equal(n.Descriptor.Digest) {
				findings = append(findings, verdict.Find(verdict.SBOMSubject, a.Name, "the SBOM attached in the registry describes another image").
					Differ(n.Descriptor.Digest.String(), described.String()).Citing(e.Bundle()))
				continue
			}
			more, err := g.checkAttachedSBOM(ctx, a, n, document)
			if err != nil {
				return err
			}
			findings = append(findings, more...)
		}
		return nil
	})
	return findings, err
}

// checkAttachedSBOM compares an SBOM with the contents of the image that it describes,
// one platform or the index.
func (g gathered) checkAttachedSBOM(ctx context.Context, a manifest.Artifact, n *registry.Node, document spdx.Document) ([]verdict.Finding, error) {
	name, _ := document.Describes()
	about := sbomcheck.Artifact{
		Name: name, Version: g.release.manifest.Version.String(), Digests: digest.SetOf(n.Raw), Document: document,
	}
	facts := sbomcheck.Release{Images: map[string]sbomcheck.Image{name: n.Served()}}
	found, err := g.release.Options.Inside.Image(ctx, about, g.release.Images, a.Repository, n)
	return append(facts.About(about), found.Findings...), err
}

// checkDocuments makes the checks that need all documents: the SBOM of the
// whole release, and files that contain images.
func checkDocuments(ctx context.Context, g gathered) (f facts) {
	mode, profile := policy.Off, ""
	for _, class := range g.release.manifest.classes() {
		if m := g.release.Policy.Asks(g.release.Stage, class, policy.SBOM); m == policy.Require || m == policy.Warn && mode == policy.Off {
			mode = m
		}
		if _, asked := g.release.Policy.SBOMs(g.release.Stage, class); asked != "" {
			profile = asked
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
			f.note("%s contains an image that the release does not publish; it was not compared with a registry", a.Name)
		}
		f.weigh(mode, findings...)
	}
	var whole spdx.Document
	if name := g.planned.SBOMs.Release; name != "" && g.holds(name) {
		var found []verdict.Finding
		whole, found = g.checkWhole(ctx, name)
		followAll(&f, mode, append(found, sbomcheck.Profiled(sbomcheck.Artifact{Name: name, Document: whole}, profile)...))
	}
	if name := g.planned.SBOMs.Source; name != "" && g.holds(name) {
		followAll(&f, mode, g.checkSourceSBOM(ctx, name, profile, whole))
	}
	g.sboms.sayOmitted(&f)
	return f
}

// followAll reports findings about artifacts that have none yet.
func followAll(f *facts, mode policy.Mode, found []verdict.Finding) {
	for _, one := range found {
		f.follow(one.Subject, mode, one)
	}
}

// checkSourceSBOM compares the SBOM of the source with that of the release,
// which refers to it, and its modules with the lock.
func (g gathered) checkSourceSBOM(ctx context.Context, name, profile string, whole spdx.Document) []verdict.Finding {
	raw, err := g.release.readListed(ctx, name)
	if err != nil {
		return nil // plan and census report that it is missing
	}
	document, err := parseSBOM(string(raw))
	if err != nil {
		return []verdict.Finding{verdict.FindingOf(name, verdict.Wrap(codeOf(err), name, err))}
	}
	a := sbomcheck.Artifact{
		Name: name, Version: g.release.manifest.Version.String(), Document: document, DocumentDigest: g.release.manifest.digestOf(name), Namespace: document.Namespace(),
	}
	findings := append(sbomcheck.Source(a, whole), sbomcheck.Named(a)...)
	return slices.Concat(findings, sbomcheck.Known(a, g.sboms.goSum), sbomcheck.Profiled(a, profile))
}

// checkWhole compares the SBOM of the release with its artifacts and their
// SBOMs.
func (g gathered) checkWhole(ctx context.Context, name string) (spdx.Document, []verdict.Finding) {
	raw, err := g.release.readListed(ctx, name)
	if err != nil {
		return spdx.Document{}, nil // plan and census report that it is missing
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
		about := g.release.manifest.sbomFacts(a)
		if read, known := g.sboms.read[a.Name]; known {
			about = read
		}
		artifacts = append(artifacts, about)
	}
	return document, sbomcheck.Listed(document, artifacts)
}

// sayOmitted reports what the documents leave out, and what could not be
// compared.
func (d *documents) sayOmitted(f *facts) {
	if names := slices.Sorted(maps.Keys(d.whole)); len(names) > 0 {
		f.note("the SBOMs of %s omit something, the first: %s: %s", plural.Of(len(names), "artifact"), names[0], d.whole[names[0]][0])
	}
	if names := slices.Sorted(maps.Keys(d.blind)); len(names) > 0 {
		f.note("module checksums not compared with a go.sum, which neither the lock nor the release has: %s: %s", plural.Of(len(names), "program"), firstFew(names))
	}
}

func firstFew(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:few], ", ") + ", …"
}
