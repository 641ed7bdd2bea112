// Package crosscheck holds SBOMs against everything else that is known of a
// release: its artifacts, the provenance, the modules that its programs say
// they were built from, the layers that the registry serves. Each of these is
// evidence of its own; where two of them contradict each other, one is wrong,
// and nobody need know which to refuse both.
//
//	r := crosscheck.Release{Artifacts: artifacts, Document: released}
//	for _, f := range r.Findings() { … f.Code, f.Subject, f.Want, f.Got }
//
// What is not given is not compared; that a release has no artifacts is a
// finding. The package reads no bytes and decides no policy: documents and
// facts are values, and whoever has them proved them elsewhere.
package crosscheck

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/spdx"
	"github.com/waybill-release/waybill/pkg/verdict"
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
	Platform string // "linux/amd64", or "" if it is of none
	Bare     bool   // a single file that archives pack, such as a program
	Digests  digest.Set
	// Document describes the artifact; it is zero if there is none.
	Document spdx.Document
	// DocumentDigest is that of the document's bytes.
	DocumentDigest digest.Digest
}

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
		all = append(all, Subject(a)...)
		if a.Document.IsZero() {
			continue
		}
		if modules, asked := r.Modules[a.Name]; asked {
			all = append(all, Modules(a, modules)...)
		}
		if r.GoSum != nil {
			all = append(all, Sums(a, r.GoSum)...)
		}
		if image, asked := r.Images[a.Name]; asked {
			all = append(all, Layers(a, image)...)
		}
		if r.Complete {
			all = append(all, Complete(a)...)
		}
	}
	all = append(all, r.provenance()...)
	all = append(all, Members(r.Artifacts)...)
	if !r.Document.IsZero() {
		all = append(all, Listed(r.Document, r.Artifacts)...)
	}
	return all
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
	return nil
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

// Members demands that a file in an archive is, byte for byte, the single file
// of the same name and platform that the release publishes.
func Members(artifacts []Artifact) (all []verdict.Finding) {
	type key struct{ platform, name string }
	bare := map[key]Artifact{}
	for _, a := range artifacts {
		if a.Bare && a.Platform != "" {
			bare[key{a.Platform, path.Base(a.Name)}] = a
		}
	}
	for _, a := range artifacts {
		if a.Bare || a.Platform == "" || a.Document.IsZero() {
			continue
		}
		for _, f := range a.Document.Files() {
			alone, both := bare[key{a.Platform, path.Base(f.Name)}]
			if both && !f.Digests.SHA256.Equal(alone.Digests.SHA256) {
				all = append(all, verdict.Find(verdict.Conflict, a.Name, "the file %.200q in it is not the artifact %q of the same platform", f.Name, alone.Name).
					Differ(alone.Digests.SHA256.String(), orNone(f.Digests.SHA256)))
			}
		}
	}
	return all
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
		}
		if a.Document.IsZero() {
			continue
		}
		if sum, linked := refs[a.Document.Namespace()]; !linked || !sum.Equal(a.DocumentDigest) {
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "the SBOM of the release does not refer to its own SBOM by these bytes").
				Differ(a.DocumentDigest.String(), orNone(sum)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		all = append(all, verdict.Find(verdict.SBOMSubject, name, "the SBOM of the release lists it, and the release does not have it"))
	}
	return all
}

// Modules demands that a document lists exactly the modules that the program
// names itself.
func Modules(a Artifact, modules []Module) (all []verdict.Finding) {
	want := map[string]string{}
	for _, m := range modules {
		want[strings.TrimSpace(m.Path+" "+m.Version)] = m.Sum
	}
	got := map[string]string{}
	for _, p := range goPackages(a.Document) {
		got[strings.TrimSpace(p.Name+" "+version(p))] = p.Sum
	}
	for _, m := range slices.Sorted(maps.Keys(want)) {
		sum, there := got[m]
		switch {
		case !there:
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "the program was built with %.200q, and its SBOM does not list that", m))
		case sum != want[m]:
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "program and SBOM have other checksums of %.200q", m).Differ(want[m], sum))
		}
	}
	for _, m := range slices.Sorted(maps.Keys(got)) {
		if _, there := want[m]; !there {
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "its SBOM lists %.200q, which the program was not built with", m))
		}
	}
	return all
}

func version(p spdx.Package) string {
	if p.Version == spdx.NoAssertion {
		return ""
	}
	return p.Version
}

// goPackages are the packages on which something of the document depends and
// that are Go modules; the standard library is none.
func goPackages(doc spdx.Document) (list []spdx.Package) {
	needed := map[string]bool{}
	for _, r := range doc.Relationships() {
		needed[r.To] = needed[r.To] || r.Type == spdx.DependsOn
	}
	for _, p := range doc.Packages() {
		isModule := strings.HasPrefix(p.PURL, "pkg:golang/") || strings.HasPrefix(p.Comment, "Replaces ")
		if needed[p.ID] && isModule && !strings.HasPrefix(p.PURL, "pkg:golang/stdlib@") {
			list = append(list, p)
		}
	}
	return list
}

// Sums demands that the modules of a document have the checksums of go.sum.
func Sums(a Artifact, sums map[string]string) (all []verdict.Finding) {
	for _, p := range goPackages(a.Document) {
		if p.Sum == "" {
			continue
		}
		switch want, there := sums[p.Name+" "+p.Version]; {
		case !there:
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "go.sum at the source commit does not know %.200q", p.Name+" "+p.Version))
		case want != p.Sum:
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "go.sum and SBOM have other checksums of %.200q", p.Name+" "+p.Version).Differ(want, p.Sum))
		}
	}
	return all
}

// Layers demands that a document lists the platforms that the registry serves,
// and of each exactly its layers. Of an image that was saved to a file the
// configuration is compared, which names the same layers.
func Layers(a Artifact, image Image) (all []verdict.Finding) {
	got := platforms(a.Document)
	for _, name := range slices.Sorted(maps.Keys(image)) {
		p, there := got[name]
		delete(got, name)
		want := image[name]
		switch {
		case !there:
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "the registry serves %s, and the SBOM does not list it", name))
		case p.Manifest.IsZero() && !p.Config.Equal(want.Config):
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "file and registry have other images for %s", name).
				Differ(want.Config.String(), orNone(p.Config)))
		case p.Manifest.IsZero():
		case !p.Manifest.Equal(want.Manifest):
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "SBOM and registry have other images for %s", name).
				Differ(want.Manifest.String(), p.Manifest.String()))
		case !slices.Equal(sorted(p.Layers), sorted(want.Layers)):
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "SBOM and registry have other layers for %s", name).
				Differ(strings.Join(sorted(want.Layers), " "), strings.Join(sorted(p.Layers), " ")))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		all = append(all, verdict.Find(verdict.Conflict, a.Name, "its SBOM lists %.200q, which the registry does not serve", name))
	}
	return all
}

func sorted(list []digest.Digest) (out []string) {
	for _, d := range list {
		out = append(out, d.String())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// platforms are the images that a document lists, by platform.
func platforms(doc spdx.Document) Image {
	byID, images := map[string]spdx.Package{}, map[string]string{}
	name, _ := doc.Describes()
	for _, p := range doc.Packages() {
		byID[p.ID] = p
		if rest, found := strings.CutPrefix(p.Name, name+"/"); found && p.Purpose == spdx.Container {
			images[p.ID] = rest
		}
	}
	out := Image{}
	for id, platform := range images {
		p := Platform{Manifest: byID[id].Digests.SHA256}
		if rest, found := strings.CutPrefix(byID[id].Comment, Configuration); found {
			p.Config, _ = digest.Parse(strings.TrimSuffix(rest, ".")) // what is none equals nothing
		}
		out[platform] = p
	}
	for _, r := range doc.Relationships() {
		layer := byID[r.To]
		if platform, own := images[r.From]; own && r.Type == spdx.Contains && layer.Purpose == spdx.Archive {
			p := out[platform]
			p.Layers = append(p.Layers, layer.Digests.SHA256)
			out[platform] = p
		}
	}
	return out
}

// Complete refuses what the document says was not examined. Packages that were
// seen and not catalogued are so too: somebody asked for all.
func Complete(a Artifact) (all []verdict.Finding) {
	for _, note := range a.Document.Unknown() {
		if strings.HasPrefix(note, NotExamined) || strings.HasPrefix(note, SeenOnly) && !strings.HasPrefix(note, SeenOnly+"version control: ") {
			all = append(all, verdict.Find(verdict.SBOMIncomplete, a.Name, "%.500q", note))
		}
	}
	return all
}

// Files demands that a document lists exactly the files that there are, each
// with its digest.
func Files(a Artifact, files []spdx.File) (all []verdict.Finding) {
	listed := map[string]digest.Digest{}
	for _, f := range a.Document.Files() {
		listed[f.Name] = f.Digests.SHA256
	}
	for _, f := range files {
		sum, there := listed[f.Name]
		delete(listed, f.Name)
		switch {
		case !there:
			all = append(all, verdict.Find(verdict.SBOMIncomplete, a.Name, "its SBOM does not list the file %.200q", f.Name))
		case !sum.Equal(f.Digests.SHA256):
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "its SBOM has another digest of the file %.200q", f.Name).
				Differ(f.Digests.SHA256.String(), orNone(sum)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		all = append(all, verdict.Find(verdict.Conflict, a.Name, "its SBOM lists the file %.200q, which is not there", name))
	}
	return all
}
