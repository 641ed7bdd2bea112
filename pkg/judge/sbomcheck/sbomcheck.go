// Package sbomcheck holds SBOMs against everything else that is known of a
// release: its artifacts, the provenance, the modules that its programs say
// they were built from, the layers that the registry serves. Each of these is
// evidence of its own; where two of them contradict each other, one is wrong,
// and nobody need know which to refuse both.
//
//	r := sbomcheck.Release{Artifacts: artifacts, Document: released}
//	for _, f := range r.Findings() { … f.Code, f.Subject, f.Want, f.Got }
//
// Where a release has many documents, [Release.About] compares them one by one
// and [Listed] the rest, so that nobody keeps them all. What is not given is not
// compared; that a release has no artifacts is a finding. Nobody compares
// licences, suppliers, comments and checksums other than SHA-256, SHA-512 and
// SHA-1: [Uncompared] names those. The package reads no bytes and decides no policy: documents
// and facts are values, and whoever has them proved them elsewhere.
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

// The words by which our documents say what they leave out: comments on the
// relationship "SPDXRef-Artifact CONTAINS NOASSERTION". Configuration begins
// the comment on the image of a platform.
const (
	NotExamined   = "not examined: "
	SeenOnly      = "seen, not catalogued: "
	Configuration = "Configuration "
)

// Artifact is one artifact of a release with its own document.
type Artifact struct {
	Name     string
	Version  string // of the release; "" is not compared
	Platform string // "linux/amd64", or "" if it is of none
	Bare     bool   // a single file that archives pack, such as a program
	Digests  digest.Set
	SHA1     string // of the bytes, forty hex digits; "" is not compared
	// Document describes the artifact; it is zero if there is none.
	Document spdx.Document
	// DocumentDigest is that of the document's bytes, Namespace the address that
	// it gives itself: for [Listed], when the document itself is kept no longer.
	DocumentDigest digest.Digest
	Namespace      string
}

// namespace is the address of the artifact's document, "" if it has none.
func (a Artifact) namespace() string { return cmp.Or(a.Namespace, a.Document.Namespace()) }

// Module is a Go module as a program or go.sum names it.
type Module struct{ Path, Version, Sum string }

// Image is what a registry serves of an image, by platform.
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
	// Provenance maps names to what the provenance says was built; nil if none
	// was read.
	Provenance map[string]digest.Digest
	// Modules are those of Go programs, by artifact.
	Modules map[string][]Module
	// GoSum are the checksums of go.sum at the source commit, by "path version";
	// nil if there are none.
	GoSum map[string]string
	// Images are what the registry serves, by artifact.
	Images map[string]Image
	// Complete demands that nothing was left unexamined.
	Complete bool
}

// Findings lists every disagreement, in the order of the artifacts.
func (r Release) Findings() []verdict.Finding {
	if len(r.Artifacts) == 0 {
		return []verdict.Finding{verdict.Find(verdict.SBOMSubject, "release", "no artifacts: there is nothing that SBOMs could agree with")}
	}
	var all []verdict.Finding
	for _, a := range r.Artifacts {
		all = append(all, r.About(a)...)
	}
	all = append(all, r.provenance()...)
	if !r.Document.IsZero() {
		all = append(all, Listed(r.Document, r.Artifacts)...)
	}
	return all
}

// About compares one artifact and its document with what is known of the
// release. The other artifacts need no documents.
func (r Release) About(a Artifact) []verdict.Finding {
	all := Subject(a)
	if a.Document.IsZero() {
		return all
	}
	all = append(all, Named(a)...)
	if modules, asked := r.Modules[a.Name]; asked {
		all = append(all, Modules(a, modules)...)
	}
	if r.GoSum != nil && !Elsewhere(a.Document) {
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

// Subject demands that the document of an artifact describes it, and nothing
// else: by name and by digest.
func Subject(a Artifact) []verdict.Finding {
	if a.Document.IsZero() {
		return []verdict.Finding{verdict.Find(verdict.NoSBOM, a.Name, "it has no SBOM")}
	}
	name, sum := a.Document.Describes()
	switch {
	case !sum.Equal(a.Digests.SHA256):
		return []verdict.Finding{verdict.Find(verdict.SBOMSubject, a.Name, "its SBOM describes other bytes").
			Differ(a.Digests.SHA256.String(), orNone(sum))}
	case name != a.Name:
		return []verdict.Finding{verdict.Find(verdict.SBOMSubject, a.Name, "its SBOM describes something of another name").Differ(a.Name, name)}
	}
	// A file has no version: there syft says its digest once more.
	if version := a.Document.DescribedVersion(); a.Version != "" && version != "" && version != a.Version && version != sum.String() {
		return []verdict.Finding{verdict.Find(verdict.SBOMSubject, a.Name, "its SBOM describes another version").Differ(a.Version, version)}
	}
	return Stating(a)
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
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "it has an SBOM, and no provenance speaks of it"))
		case !built.Equal(a.Digests.SHA256):
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "provenance and artifact disagree").
				Differ(built.String(), a.Digests.SHA256.String()))
		}
	}
	return all
}

// Members demands that a program in an archive is, byte for byte, the single
// file of the same name and platform that the release publishes. Another file
// of that name, such as a manual page, is no other version of it as long as
// the very file is there too.
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
	isProgram := programs(a.Document)
	for _, f := range files {
		name := path.Base(f.Name)
		alone, both := bare[name]
		if both && !f.Digests.SHA256.Equal(alone.Digests.SHA256) && (!packed[name] || isProgram[f.ID]) {
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "the file %.200q in it is not the artifact %q of the same platform", f.Name, alone.Name).
				Differ(alone.Digests.SHA256.String(), orNone(f.Digests.SHA256)))
		}
	}
	return all
}

// Entries demands that what the document of an image names as put there is an
// artifact of the release, by name and bytes.
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
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "its SBOM says that %.200q was put in, which the release does not have", p.Name))
		case !release[i].Digests.SHA256.Equal(p.Digests.SHA256):
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "its SBOM says that other bytes of %.200q were put in than the release has", p.Name).
				Differ(release[i].Digests.SHA256.String(), orNone(p.Digests.SHA256)))
		case otherThan(p.Digests.SHA512, release[i].Digests.SHA512):
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "its SBOM gives a checksum of other bytes of %.200q, which was put in", p.Name).
				Differ(release[i].Digests.SHA512.String(), p.Digests.SHA512.String()))
		}
	}
	return all
}

// otherThan reports whether two digests are known, and of other bytes.
func otherThan(said, is digest.Digest) bool {
	return !said.IsZero() && !is.IsZero() && !said.Equal(is)
}

// programs are the elements that depend on something: of files only programs do.
func programs(doc spdx.Document) map[string]bool {
	all := map[string]bool{}
	for _, r := range doc.Relationships() {
		if r.Type == spdx.DependsOn {
			all[r.From] = true
		}
	}
	return all
}

// Whole demands that a document is about a release, "name version".
func Whole(doc spdx.Document, file, release string) []verdict.Finding {
	about, _ := doc.Describes()
	if about += " " + doc.DescribedVersion(); about != release {
		return []verdict.Finding{verdict.Find(verdict.SBOMSubject, file, "the SBOM of the release describes something else").Differ(release, about)}
	}
	return nil
}

// Listed demands that the document of a release lists exactly its artifacts,
// each with its digest, and refers to each artifact's own document by the
// address that this gives itself and by its bytes.
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
			all = append(all, verdict.Find(verdict.SBOMIncomplete, a.Name, "the SBOM of the release does not list it"))
			continue
		case !p.Digests.SHA256.Equal(a.Digests.SHA256):
			all = append(all, verdict.Find(verdict.SBOMSubject, a.Name, "the SBOM of the release lists other bytes").
				Differ(a.Digests.SHA256.String(), orNone(p.Digests.SHA256)))
		case otherThan(p.Digests.SHA512, a.Digests.SHA512):
			all = append(all, verdict.Find(verdict.SBOMSubject, a.Name, "the SBOM of the release gives a checksum of other bytes").
				Differ(a.Digests.SHA512.String(), p.Digests.SHA512.String()))
		}
		if a.namespace() == "" {
			continue
		}
		if sum, linked := refs[a.namespace()]; !linked || !sum.Equal(a.DocumentDigest) {
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "the SBOM of the release does not refer to its own SBOM by these bytes").
				Differ(a.DocumentDigest.String(), orNone(sum)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		all = append(all, verdict.Find(verdict.SBOMSubject, name, "the SBOM of the release lists it, and the release does not have it"))
	}
	return all
}
