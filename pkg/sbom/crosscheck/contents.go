package crosscheck

import (
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/spdx"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// Found is what reading an artifact again came to.
type Found struct {
	// Digests are those of the bytes as they were read.
	Digests digest.Set
	// Findings are where its contents are not what the document lists.
	Findings []verdict.Finding
}

// Complete refuses what the document says was not examined. Packages that were
// seen and not catalogued are so too: somebody asked for all.
func Complete(a Artifact) (all []verdict.Finding) {
	for _, note := range Omitted(a.Document) {
		all = append(all, verdict.Find(verdict.SBOMIncomplete, a.Name, "%.500q", note))
	}
	return all
}

// Omitted lists what a document says that it leaves out.
func Omitted(doc spdx.Document) (notes []string) {
	for _, note := range doc.Unknown() {
		if strings.HasPrefix(note, NotExamined) || strings.HasPrefix(note, SeenOnly) && !strings.HasPrefix(note, SeenOnly+"version control: ") {
			notes = append(notes, note)
		}
	}
	return notes
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

// Components demands that a document lists exactly the components that are
// found in the artifact when it is read again: the modules of programs and
// source trees with their checksums, and the packages of distributions.
func Components(a Artifact, found spdx.Draft) (all []verdict.Finding) {
	want := components(found.Packages, found.Relationships)
	got := components(a.Document.Packages(), a.Document.Relationships())
	for _, name := range slices.Sorted(maps.Keys(want)) {
		sum, there := got[name]
		switch {
		case !there:
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "%.200q is in it, and its SBOM does not list that", name))
		case sum != want[name]:
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "artifact and SBOM have other checksums of %.200q", name).Differ(want[name], sum))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, there := want[name]; !there {
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "its SBOM lists %.200q, which is not found in it", name))
		}
	}
	return all
}

// components are the checksums of modules, and of packages of distributions,
// which have none, by name and version.
func components(packages []spdx.Package, relationships []spdx.Relationship) map[string]string {
	needed, all := needs(relationships), map[string]string{}
	for _, p := range packages {
		kind, _, _ := strings.Cut(strings.TrimPrefix(p.PURL, "pkg:"), "/")
		switch {
		case isModule(p) && needed[p.ID]:
			all[nameOf(p)] = p.Sum
		case kind == "deb" || kind == "apk":
			all[p.PURL] = ""
		}
	}
	return all
}
