// Package sbomcheck compares SBOMs with everything else that is known about a
// release: its artifacts, the provenance, the modules that its programs record,
// the layers that the registry serves. Each is independent evidence; if two of
// them contradict each other, both are refused, without a decision which one is
// wrong.
//
//	r := sbomcheck.Release{Artifacts: artifacts, Document: released}
//	for _, f := range r.Findings() { … f.Code, f.Subject, f.Want, f.Got }
//
// For a release with many documents, [Release.About] compares them one by one
// and [Listed] compares the release as a whole, so that they need not all be in
// memory. Fields that are not given are not compared, but a release without
// artifacts is a finding. Licences, suppliers, comments and checksums other
// than SHA-256, SHA-512 and SHA-1 are not compared: [Uncompared] lists the
// checksums. The package reads no files and knows no policy: the caller has
// verified the documents and facts.
//
// Other projects should not import this package: it changes without notice.
package sbomcheck

import (
	"cmp"
	"maps"
	"path"
	"slices"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The prefixes with which our documents list what they leave out: comments on
// the relationship "SPDXRef-Artifact CONTAINS NOASSERTION". Configuration is
// the prefix of the comment on the image of a platform.
const (
	NotExamined   = "not examined: "
	SeenOnly      = "seen, not catalogued: "
	Configuration = "Configuration "
)

// Artifact is one artifact of a release with its own document.
type Artifact struct {
	Name     string
	Version  string // version of the release; "" is not compared
	Platform string // "linux/amd64", or "" if it has none
	Bare     bool   // a single file that archives contain, such as a program
	Digests  digest.Set
	SHA1     string // of the bytes, forty hex digits; "" is not compared
	// Document describes the artifact; it is zero if there is none.
	Document spdx.Document
	// DocumentDigest is the digest of the document, Namespace its document
	// namespace: for [Listed], when the document itself is no longer in memory.
	DocumentDigest digest.Digest
	Namespace      string
}

// namespace is the document namespace of the artifact's document, "" if it has
// none.
func (a Artifact) namespace() string { return cmp.Or(a.Namespace, a.Document.Namespace()) }

// Module is a Go module as recorded in a program or in go.sum.
type Module struct{ Path, Version, Sum string }

// Image is what a registry serves for an image, by platform.
type Image map[string]Platform

// Platform is the image of one platform.
type Platform struct {
	Manifest, Config digest.Digest
	Layers           []digest.Digest
}

// Release is everything that is compared.
type Release struct {
	Artifacts []Artifact
	// Document lists all artifacts; zero if the release has no such document.
	Document spdx.Document
	// Provenance maps names to the digests in the provenance; nil if none was
	// read.
	Provenance map[string]digest.Digest
	// Modules are those of Go programs, by artifact.
	Modules map[string][]Module
	// GoSum are the checksums of go.sum at the source commit, by "path version";
	// nil if there are none.
	GoSum map[string]string
	// Images are what the registry serves, by artifact.
	Images map[string]Image
	// Complete requires that the SBOMs leave nothing unexamined.
	Complete bool
}

// Findings lists every contradiction, in the order of the artifacts.
func (r Release) Findings() (all []verdict.Finding) {
	if len(r.Artifacts) == 0 {
		return []verdict.Finding{verdict.Find(verdict.SBOMSubject, "release", "no artifacts to compare the SBOMs with")}
	}
	for _, a := range r.Artifacts {
		all = append(all, r.About(a)...)
	}
	all = append(all, r.provenance()...)
	if !r.Document.IsZero() {
		all = append(all, Listed(r.Document, r.Artifacts)...)
	}
	return all
}

// About compares one artifact and its document with the rest of the release.
// The other artifacts need no documents.
func (r Release) About(a Artifact) []verdict.Finding {
	all := Subject(a)
	if a.Document.IsZero() {
		return all
	}
	all = append(all, Named(a)...)
	if modules, asked := r.Modules[a.Name]; asked {
		all = append(all, Modules(a, modules)...)
	}
	if r.GoSum != nil && !BuiltFromFetched(a.Document) {
		all = append(all, Sums(a, r.GoSum)...)
	}
	if image, asked := r.Images[a.Name]; asked {
		all = append(all, Layers(a, image)...)
	}
	if r.Complete {
		all = append(all, Complete(a)...)
	}
	return append(append(all, Members(a, r.Artifacts)...), Entries(a, r.Artifacts)...)
}

// Subject requires that the document of an artifact describes this artifact, by
// name and by digest.
func Subject(a Artifact) []verdict.Finding {
	if a.Document.IsZero() {
		return []verdict.Finding{verdict.Find(verdict.NoSBOM, a.Name, "the artifact has no SBOM")}
	}
	name, sum := a.Document.Describes()
	switch {
	case !sum.Equal(a.Digests.SHA256):
		return []verdict.Finding{verdict.Find(verdict.SBOMSubject, a.Name, "its SBOM describes other bytes").
			Differ(a.Digests.SHA256.String(), orNone(sum))}
	case name != a.Name:
		return []verdict.Finding{verdict.Find(verdict.SBOMSubject, a.Name, "its SBOM describes an artifact with another name").Differ(a.Name, name)}
	}
	// A file has no version: syft repeats its digest there.
	if version := a.Document.DescribedVersion(); a.Version != "" && version != "" && version != a.Version && version != sum.String() {
		return []verdict.Finding{verdict.Find(verdict.SBOMSubject, a.Name, "its SBOM describes another version").Differ(a.Version, version)}
	}
	return Checksums(a)
}

func orNone(d digest.Digest) string {
	if d.IsZero() {
		return "no SHA-256"
	}
	return d.String()
}

func (r Release) provenance() (all []verdict.Finding) {
	if r.Provenance == nil {
		return nil
	}
	for _, a := range r.Artifacts {
		built, there := r.Provenance[a.Name]
		switch {
		case !there:
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "the artifact has an SBOM, but no provenance covers it"))
		case !built.Equal(a.Digests.SHA256):
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "the digest in the provenance is not that of the artifact").
				Differ(built.String(), a.Digests.SHA256.String()))
		}
	}
	return all
}

// Members requires that a program in an archive is, byte for byte, the single
// file with the same name and platform that the release publishes. Another file
// with that name, such as a manual page, is allowed if the archive also
// contains the program.
func Members(a Artifact, release []Artifact) (all []verdict.Finding) {
	bare := map[string]Artifact{}
	for _, other := range release {
		if other.Bare && other.Platform != "" && other.Platform == a.Platform {
			bare[path.Base(other.Name)] = other
		}
	}
	if a.Bare || len(bare) == 0 {
		return nil
	}
	files := a.Document.Files()
	packed := map[string]bool{}
	for _, f := range files {
		name := path.Base(f.Name)
		packed[name] = packed[name] || f.Digests.SHA256.Equal(bare[name].Digests.SHA256)
	}
	isProgram := Programs(a.Document)
	for _, f := range files {
		name := path.Base(f.Name)
		alone, both := bare[name]
		if both && !f.Digests.SHA256.Equal(alone.Digests.SHA256) && (!packed[name] || isProgram[f.ID]) {
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "the file %.200q in the archive differs from the artifact %q of the same platform", f.Name, alone.Name).
				Differ(alone.Digests.SHA256.String(), orNone(f.Digests.SHA256)))
		}
	}
	return all
}

// Entries requires that each artifact that the SBOM of an image lists as copied
// into the image is an artifact of the release, by name and bytes.
func Entries(a Artifact, release []Artifact) (all []verdict.Finding) {
	alone := !slices.ContainsFunc(release, func(other Artifact) bool { return other.Name != a.Name })
	if alone || !HoldsImage(a.Document) {
		return nil
	}
	own := subjectOf(a.Document.Relationships())
	for _, p := range a.Document.Packages() {
		if p.ID == own || p.FileName == "" || p.PURL != "" || p.Purpose == spdx.Application {
			continue
		}
		i := slices.IndexFunc(release, func(other Artifact) bool { return other.Name == p.Name })
		switch {
		case i < 0:
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "its SBOM lists %.200q, which is not an artifact of the release", p.Name))
		case !release[i].Digests.SHA256.Equal(p.Digests.SHA256):
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "its SBOM gives a wrong SHA-256 for the artifact %.200q", p.Name).
				Differ(release[i].Digests.SHA256.String(), orNone(p.Digests.SHA256)))
		case otherThan(p.Digests.SHA512, release[i].Digests.SHA512):
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "its SBOM gives a wrong SHA-512 for the artifact %.200q", p.Name).
				Differ(release[i].Digests.SHA512.String(), p.Digests.SHA512.String()))
		}
	}
	return all
}

// otherThan reports whether two digests are both known, and differ.
func otherThan(said, is digest.Digest) bool {
	return !said.IsZero() && !is.IsZero() && !said.Equal(is)
}

// Programs returns the elements that depend on something: among files, only
// programs do.
func Programs(doc spdx.Document) map[string]bool {
	all := map[string]bool{}
	for _, r := range doc.Relationships() {
		if r.Type == spdx.DependsOn {
			all[r.From] = true
		}
	}
	return all
}

// Whole requires that a document describes a release, "name version".
func Whole(doc spdx.Document, file, release string) []verdict.Finding {
	about, _ := doc.Describes()
	if about += " " + doc.DescribedVersion(); about != release {
		return []verdict.Finding{verdict.Find(verdict.SBOMSubject, file, "the SBOM of the release describes another release").Differ(release, about)}
	}
	return nil
}

// Listed requires that the document of a release lists exactly its artifacts
// with their digests, and references each artifact's own document by namespace
// and digest.
func Listed(doc spdx.Document, artifacts []Artifact) (all []verdict.Finding) {
	listed := map[string]spdx.Package{}
	for _, p := range doc.Packages() {
		if p.FileName != "" {
			listed[p.Name] = p
		}
	}
	refs := map[string]digest.Digest{}
	for _, e := range doc.ExternalRefs() {
		refs[e.Namespace] = e.SHA256
	}
	for _, a := range artifacts {
		p, there := listed[a.Name]
		delete(listed, a.Name)
		switch {
		case !there:
			all = append(all, verdict.Find(verdict.SBOMIncomplete, a.Name, "the SBOM of the release does not list this artifact"))
			continue
		case !p.Digests.SHA256.Equal(a.Digests.SHA256):
			all = append(all, verdict.Find(verdict.SBOMSubject, a.Name, "the SBOM of the release lists another digest").
				Differ(a.Digests.SHA256.String(), orNone(p.Digests.SHA256)))
		case otherThan(p.Digests.SHA512, a.Digests.SHA512):
			all = append(all, verdict.Find(verdict.SBOMSubject, a.Name, "the SBOM of the release gives a wrong checksum").
				Differ(a.Digests.SHA512.String(), p.Digests.SHA512.String()))
		}
		if a.namespace() == "" {
			continue
		}
		if sum, linked := refs[a.namespace()]; !linked || !sum.Equal(a.DocumentDigest) {
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "the SBOM of the release does not reference the artifact's SBOM by this digest").
				Differ(a.DocumentDigest.String(), orNone(sum)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		all = append(all, verdict.Find(verdict.SBOMSubject, name, "the SBOM of the release lists this, but it is not an artifact of the release"))
	}
	return all
}
