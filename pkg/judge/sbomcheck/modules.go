package sbomcheck

import (
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Modules requires that a document lists exactly the modules that the program
// itself records.
func Modules(a Artifact, modules []Module) (all []verdict.Finding) {
	want := map[string]string{}
	for _, m := range modules {
		want[strings.TrimSpace(m.Path+" "+m.Version)] = m.Sum
	}
	got := map[string]string{}
	for _, p := range goPackages(a.Document) {
		got[nameOf(p)] = p.Sum
	}
	for _, m := range slices.Sorted(maps.Keys(want)) {
		sum, there := got[m]
		switch {
		case !there:
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "the program was built with %.200q, but its SBOM does not list it", m))
		case sum != want[m]:
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "program and SBOM have different checksums of %.200q", m).Differ(want[m], sum))
		}
	}
	for _, m := range slices.Sorted(maps.Keys(got)) {
		if _, there := want[m]; !there {
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "its SBOM lists %.200q, which the program was not built with", m))
		}
	}
	return all
}

// nameOf returns path and version of a module.
func nameOf(p spdx.Package) string {
	if p.Version == spdx.NoAssertion {
		return p.Name
	}
	return strings.TrimSpace(p.Name + " " + p.Version)
}

// goPackages returns the Go modules that another element of the document
// depends on, without the standard library.
func goPackages(doc spdx.Document) (list []spdx.Package) {
	needed := needs(doc.Relationships())
	return slice.Filter(doc.Packages(), func(p spdx.Package) bool { return needed[p.ID] && isModule(p) })
}

// needs returns the elements that another element depends on.
func needs(relationships []spdx.Relationship) map[string]bool {
	needed := map[string]bool{}
	for _, r := range relationships {
		if r.Type == spdx.DependsOn {
			needed[r.To] = true
		}
	}
	return needed
}

// golang is the prefix of package URLs of Go modules.
const golang = "pkg:golang/"

func isModule(p spdx.Package) bool {
	return (strings.HasPrefix(p.PURL, golang) || strings.HasPrefix(p.Comment, "Replaces ")) &&
		!strings.HasPrefix(p.PURL, golang+"stdlib@")
}

// BuiltFromFetched reports whether the program was built from a module that the
// Go toolchain fetched, not from a source tree: then it is not covered by a
// go.sum of the release.
func BuiltFromFetched(doc spdx.Document) bool {
	main := map[string]bool{}
	for _, r := range doc.Relationships() {
		main[r.To] = main[r.To] || r.Type == spdx.GeneratedFrom
	}
	return slices.ContainsFunc(doc.Packages(), func(p spdx.Package) bool { return main[p.ID] && p.Sum != "" })
}

// Sums requires that the modules of a document have the checksums of go.sum.
func Sums(a Artifact, sums map[string]string) (all []verdict.Finding) {
	for _, p := range goPackages(a.Document) {
		if p.Sum == "" {
			continue
		}
		switch want, there := sums[p.Name+" "+p.Version]; {
		case !there:
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "go.sum at the source commit does not list %.200q", p.Name+" "+p.Version))
		case want != p.Sum:
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "go.sum and SBOM have different checksums of %.200q", p.Name+" "+p.Version).Differ(want, p.Sum))
		}
	}
	return all
}

// HasSums reports whether a document gives checksums of modules.
func HasSums(doc spdx.Document) bool {
	return slices.ContainsFunc(goPackages(doc), func(p spdx.Package) bool { return p.Sum != "" })
}

// Locked converts the go.sum checksums in a lock file, for [Release.GoSum].
func Locked(lock plan.Lock) map[string]string {
	sums := map[string]string{}
	for _, m := range lock.Modules {
		for _, line := range m.Require {
			if i := strings.LastIndexByte(line, ' '); i > 0 {
				sums[line[:i]] = line[i+1:]
			}
		}
	}
	return sums
}

// SourceName is the name of the source in its document.
const SourceName = "source"

// Source requires that a document describes the source of a release and that
// the document of the release, unless it is zero, says that the release was
// made from it, by namespace and digest. a is that document under its file
// name, with the version of the release.
func Source(a Artifact, whole spdx.Document) (all []verdict.Finding) {
	name := a.Document.DescribedVersion()
	if about, _ := a.Document.Describes(); about != SourceName || name != a.Version {
		all = append(all, verdict.Find(verdict.SBOMSubject, a.Name, "the SBOM of the source describes another source").
			Differ(SourceName+" "+a.Version, about+" "+name))
	}
	if whole.IsZero() {
		return all
	}
	id, sum := reference(whole, a.namespace())
	switch {
	case !sum.Equal(a.DocumentDigest):
		all = append(all, verdict.Find(verdict.Conflict, a.Name, "the SBOM of the release does not reference the SBOM of the source by this digest").
			Differ(a.DocumentDigest.String(), orNone(sum)))
	case !madeFrom(whole, id):
		all = append(all, verdict.Find(verdict.Conflict, a.Name, "the SBOM of the release does not say that the release was made from this source"))
	}
	return all
}

// reference returns the digest that a document gives for another one; zero if
// it gives none, or two.
func reference(doc spdx.Document, namespace string) (id string, sum digest.Digest) {
	for _, e := range doc.ExternalRefs() {
		switch {
		case e.Namespace != namespace:
		case id != "":
			return "", digest.Digest{}
		default:
			id, sum = e.ID, e.SHA256
		}
	}
	return id, sum
}

// madeFrom reports whether a subject of the document was made from an element
// of another document.
func madeFrom(doc spdx.Document, id string) bool {
	relationships := doc.Relationships()
	described := map[string]bool{}
	for _, r := range relationships {
		described[r.To] = described[r.To] || r.Type == spdx.Describes
	}
	return slices.ContainsFunc(relationships, func(r spdx.Relationship) bool {
		return r.Type == spdx.GeneratedFrom && described[r.From] && strings.HasPrefix(r.To, id+":")
	})
}

// Known requires that the modules of a document have the known checksums. Other
// modules are ignored: a source contains modules that no step of the release
// builds.
func Known(a Artifact, sums map[string]string) (all []verdict.Finding) {
	for _, p := range goPackages(a.Document) {
		want, known := sums[p.Name+" "+p.Version]
		if known && p.Sum != "" && want != p.Sum {
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "go.sum and SBOM have different checksums of %.200q", p.Name+" "+p.Version).Differ(want, p.Sum))
		}
	}
	return all
}
