package sbomcheck

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Components requires that a document lists exactly the components that are
// found when the artifact is read again: the modules of programs and source
// trees with their checksums, the standard library and the toolchain of
// programs, the packages of distributions, images and layers. If these are
// equal, their places must be too: a package in the layer that added it, a
// module in the program that needs it. A package of any other kind is refused,
// because nothing in the bytes shows it. The document must list what could not
// be examined.
func Components(a Artifact, found spdx.Draft) (all []verdict.Finding) {
	all = Stated(a, found.Relationships)
	want := componentsOf(found.Packages, found.Files, found.Relationships)
	got := componentsOf(a.Document.Packages(), a.Document.Files(), a.Document.Relationships())
	for _, name := range slices.Sorted(maps.Keys(want.sums)) {
		sum, there := got.sums[name]
		switch {
		case !there:
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "the artifact contains %.200q, but its SBOM does not list it", name))
		case sum != want.sums[name]:
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "artifact and SBOM have different checksums of %.200q", name).Differ(want.sums[name], sum))
		}
	}
	all = append(all, unlisted(a, got.sums, want.sums, "its SBOM lists %.200q, which the artifact does not contain")...)
	all = append(all, mains(a, want.mains, got.mains)...)
	if len(all) > 0 {
		return all
	}
	return append(unlisted(a, want.edges, got.edges, "its SBOM lacks the relationship %.400q"),
		unlisted(a, got.edges, want.edges, "its SBOM has the wrong relationship %.400q")...)
}

// unlisted are the names in one list that the other lacks.
func unlisted[V any](a Artifact, list, other map[string]V, format string) (all []verdict.Finding) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if _, there := other[name]; !there {
			all = append(all, verdict.Find(verdict.Conflict, a.Name, format, name))
		}
	}
	return all
}

// mains compares the versions of main modules. A program that was built from a
// work tree records no version; the document may then give that of the release.
func mains(a Artifact, want, got map[string]map[string]bool) (all []verdict.Finding) {
	own := a.Document.DescribedVersion()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		for _, version := range slices.Sorted(maps.Keys(got[path])) {
			given := version == own && want[path][""] || version == "" && want[path][own]
			if !want[path][version] && !given {
				all = append(all, verdict.Find(verdict.Conflict, a.Name, "artifact and SBOM have different versions of the main module %.200q", path).
					Differ(cmp.Or(strings.Join(slices.Sorted(maps.Keys(want[path])), ", "), "none"), version))
			}
		}
		if got[path] == nil {
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "the artifact was built from the module %.200q, but its SBOM does not list it", path))
		}
	}
	return append(all, unlisted(a, got, want, "its SBOM says that the artifact was built from the module %.200q, but it was not")...)
}

// components are the contents of a document, under names that do not depend on
// its identifiers.
type components struct {
	sums  map[string]string          // go.sum checksums of modules; "" for other components
	mains map[string]map[string]bool // versions of main modules, by path
	edges map[string]bool            // "from TYPE to"
}

func componentsOf(packages []spdx.Package, files []spdx.File, relationships []spdx.Relationship) components {
	all := components{sums: map[string]string{}, mains: map[string]map[string]bool{}, edges: map[string]bool{}}
	needed, made, tools, subject := needs(relationships), map[string]bool{}, map[string]bool{}, subjectOf(relationships)
	for _, r := range relationships {
		switch {
		case r.Type == spdx.GeneratedFrom, r.Type == spdx.Contains && r.From == subject: // from a source tree
			made[r.To] = true
		case r.Type == spdx.BuildToolOf:
			tools[r.From] = true
		}
	}
	names, isFile := map[string]string{subject: "the artifact"}, map[string]bool{}
	for _, f := range files {
		names[f.ID], isFile[f.ID] = "file "+f.Name+" "+f.Digests.SHA256.String(), true
	}
	for _, p := range packages {
		if p.ID == subject {
			continue
		}
		name, sum := component(p, needed[p.ID])
		if name == "" && tools[p.ID] {
			name = "toolchain " + nameOf(p)
		}
		switch {
		case name != "":
			all.sums[name], names[p.ID] = sum, name
		case made[p.ID] && strings.HasPrefix(p.PURL, golang):
			if all.mains[p.Name] == nil {
				all.mains[p.Name] = map[string]bool{}
			}
			all.mains[p.Name][strings.TrimPrefix(p.Version, spdx.NoAssertion)] = true
			names[p.ID] = "module " + p.Name
		case p.FileName == "" || p.PURL != "": // an artifact that was put into an image has a file name, see [Entries]
			name := strings.TrimSpace("package " + nameOf(p) + " " + p.PURL)
			all.sums[name], names[p.ID] = p.Sum, name
		}
	}
	for _, r := range relationships {
		from, to := names[r.From], names[r.To]
		if r.From == subject && isFile[r.To] {
			continue // compared by [Files]
		}
		if verb := verb(r.Type); from != "" && to != "" && verb != "" {
			all.edges[from+" "+verb+" "+to] = true
		}
	}
	return all
}

// component returns the name and checksum of a package that is compared.
func component(p spdx.Package, needed bool) (name, sum string) {
	kind, _, _ := strings.Cut(strings.TrimPrefix(p.PURL, "pkg:"), "/")
	switch {
	case needed && (isModule(p) || strings.HasPrefix(p.PURL, golang)):
		return nameOf(p), p.Sum
	case kind == "deb" || kind == "apk":
		return p.PURL, ""
	case p.Purpose == spdx.OperatingSystem:
		return "distribution " + nameOf(p), ""
	case p.Purpose == spdx.Container && p.FileName == "":
		configuration, _, _ := strings.Cut(p.Comment, "\n")
		return "image " + p.Name, cmp.Or(p.Digests.SHA256.String(), configuration)
	case p.Purpose == spdx.Archive && p.FileName == "":
		return "layer " + p.Digests.SHA256.String(), ""
	}
	return "", ""
}

func subjectOf(relationships []spdx.Relationship) string {
	return slice.First(relationships, func(r spdx.Relationship) bool { return r.Type == spdx.Describes }).To
}

// verb describes a relationship that is compared.
func verb(kind string) string {
	switch kind {
	case spdx.Contains:
		return "contains"
	case spdx.DependsOn:
		return "depends on"
	case spdx.GeneratedFrom:
		return "was made from"
	case spdx.BuildToolOf:
		return "was used to build"
	case spdx.DescendantOf:
		return "is built on"
	case spdx.ExpandedFromArchive:
		return "was inside"
	}
	return ""
}
