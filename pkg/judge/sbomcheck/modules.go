package sbomcheck

import (
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Modules demands that a document lists exactly the modules that the program
// names itself.
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

// nameOf is a module as it is said to people: path and version.
func nameOf(p spdx.Package) string {
	if p.Version == spdx.NoAssertion {
		return p.Name
	}
	return strings.TrimSpace(p.Name + " " + p.Version)
}

// goPackages are the packages on which something of the document depends and
// that are Go modules; the standard library is none.
func goPackages(doc spdx.Document) (list []spdx.Package) {
	needed := needs(doc.Relationships())
	for _, p := range doc.Packages() {
		if needed[p.ID] && isModule(p) {
			list = append(list, p)
		}
	}
	return list
}

// needs are the elements on which something depends.
func needs(relationships []spdx.Relationship) map[string]bool {
	needed := map[string]bool{}
	for _, r := range relationships {
		if r.Type == spdx.DependsOn {
			needed[r.To] = true
		}
	}
	return needed
}

// golang begins the package URLs of Go modules.
const golang = "pkg:golang/"

func isModule(p spdx.Package) bool {
	return (strings.HasPrefix(p.PURL, golang) || strings.HasPrefix(p.Comment, "Replaces ")) &&
		!strings.HasPrefix(p.PURL, golang+"stdlib@")
}

// Elsewhere reports whether the program that a document describes was built
// from a module that the toolchain had fetched, not from a source tree: then
// no go.sum of the release speaks of it.
func Elsewhere(doc spdx.Document) bool {
	main := map[string]bool{}
	for _, r := range doc.Relationships() {
		main[r.To] = main[r.To] || r.Type == spdx.GeneratedFrom
	}
	return slices.ContainsFunc(doc.Packages(), func(p spdx.Package) bool { return main[p.ID] && p.Sum != "" })
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

// HasSums reports whether a document names modules by checksum.
func HasSums(doc spdx.Document) bool {
	return slices.ContainsFunc(goPackages(doc), func(p spdx.Package) bool { return p.Sum != "" })
}

// Locked are the checksums of go.sum as a lock repeats them, for
// [Release.GoSum].
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
