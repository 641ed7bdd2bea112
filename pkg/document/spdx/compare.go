package spdx

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Change is one difference between two documents.
type Change struct {
	// Kind is "package" or "file"; "artifact" where a whole document was added
	// or removed.
	Kind string `json:"kind"`
	// Name is the package URL without its version, or the name if it has none.
	Name string `json:"name"`
	// From and To are versions, or digests of files; "" where the thing is
	// absent.
	From string `json:"from"`
	To   string `json:"to"`
	// Note says what changed if the version did not.
	Note string `json:"note,omitempty"`
	// In names the artifacts with this change, if several documents were
	// compared.
	In []string `json:"in,omitempty"`
}

// Compare lists what was added, removed and changed from one document to
// another, sorted. It ignores the described things themselves, and identifiers,
// comments and relationships, which are not contents of a release.
func Compare(from, to Document) []Change {
	changes := comparePackages(from.things(), to.things())
	return append(changes, compareFiles(from.model().files, to.model().files)...)
}

// things are the packages in a document that it does not describe itself. The
// images and layers that an image consists of, and the artifacts that were put
// into it, differ in every release and are left out.
func (d Document) things() (list []Package) {
	about := map[string]bool{}
	for _, r := range d.model().relationships {
		if r.Type == Describes && r.From == DocumentID {
			about[r.To] = true
		}
	}
	for _, p := range d.model().packages {
		own := p.FileName != "" && p.PURL == "" || p.Purpose == Archive && p.Name == p.Digests.SHA256.String() ||
			p.Purpose == Container && strings.HasPrefix(p.Name, d.model().about.name+"/")
		if !about[p.ID] && !own {
			list = append(list, p)
		}
	}
	return list
}

// thing is the part of a package that does not change from version to version.
func thing(p Package) string {
	if p.PURL == "" {
		return p.Name
	}
	bare, _, _ := strings.Cut(p.PURL, "?")
	if at := strings.LastIndexByte(bare, '@'); at > strings.LastIndexByte(bare, '/') {
		bare = bare[:at]
	}
	return bare
}

func comparePackages(from, to []Package) (changes []Change) {
	was, is := versions(from), versions(to)
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, still := is[name]; !still {
			for _, v := range slices.Sorted(maps.Keys(was[name])) {
				changes = append(changes, Change{Kind: "package", Name: name, From: v})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		changes = append(changes, compareVersions(name, was[name], is[name])...)
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
	return changes
}

// versions groups the packages of each name by version.
func versions(list []Package) map[string]map[string]Package {
	out := map[string]map[string]Package{}
	for _, p := range list {
		name, v := thing(p), cmp.Or(p.Version, NoAssertion)
		if out[name] == nil {
			out[name] = map[string]Package{}
		}
		out[name][v] = p
	}
	return out
}

// compareVersions pairs removed versions with new ones, in order.
func compareVersions(name string, was, is map[string]Package) (changes []Change) {
	var gone, fresh []string
	for _, v := range slices.Sorted(maps.Keys(was)) {
		if _, still := is[v]; !still {
			gone = append(gone, v)
		}
	}
	for _, v := range slices.Sorted(maps.Keys(is)) {
		before, there := was[v]
		if !there {
			fresh = append(fresh, v)
			continue
		}
		if note := differ(before, is[v]); note != "" {
			changes = append(changes, Change{Kind: "package", Name: name, From: v, To: v, Note: note})
		}
	}
	for i := range max(len(gone), len(fresh)) {
		c := Change{Kind: "package", Name: name}
		if i < len(gone) {
			c.From = gone[i]
		}
		if i < len(fresh) {
			c.To = fresh[i]
		}
		changes = append(changes, c)
	}
	return changes
}

// differ describes differences other than the version.
func differ(a, b Package) string {
	switch {
	case a.Sum != b.Sum && a.Sum != "" && b.Sum != "":
		return "the same version with another checksum: " + a.Sum + ", then " + b.Sum
	case a.Digests.SHA256 != b.Digests.SHA256:
		return "the same version with other bytes"
	case a.Licence != b.Licence:
		return fmt.Sprintf("licence %s, then %s", orNothing(a.Licence), orNothing(b.Licence))
	}
	return ""
}

func compareFiles(from, to []File) (changes []Change) {
	was, is := map[string]string{}, map[string]string{}
	for _, f := range from {
		was[f.Name] = sumOf(f)
	}
	for _, f := range to {
		is[f.Name] = sumOf(f)
	}
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if was[name] != is[name] {
			changes = append(changes, Change{Kind: "file", Name: name, From: was[name], To: is[name]})
		}
	}
	return changes
}

func sumOf(f File) string {
	if f.Digests.SHA256.IsZero() {
		return "sha1:" + f.SHA1
	}
	return f.Digests.SHA256.String()
}

// Twins lists the differences between two forms of one document; none if they
// have the same content. The order of elements does not matter.
func Twins(a, b Document) (list []string) {
	x, y := a.model(), b.model()
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for what, pair := range map[string][2]string{
		"name": {x.name, y.name}, "namespace": {x.namespace, y.namespace}, "time of creation": {x.created, y.created},
		"version": {x.version, y.version},
	} {
		if pair[0] != pair[1] {
			say("%s: %s and %s", what, quote(pair[0]), quote(pair[1]))
		}
	}
	list = append(list, unmatched("package", x.packages, y.packages)...)
	list = append(list, unmatched("file", x.files, y.files)...)
	list = append(list, unmatched("external document", x.externals, y.externals)...)
	list = append(list, unmatched("relationship", x.relationships, y.relationships)...)
	slices.Sort(list)
	return list
}

// unmatched lists the elements that only one side has.
func unmatched[T comparable](what string, a, b []T) (list []string) {
	count := make(map[T]int, len(a))
	for _, e := range a {
		count[e]++
	}
	for _, e := range b {
		count[e]--
	}
	for e, n := range count {
		if n != 0 && len(list) < maxFaults {
			side := "first"
			if n < 0 {
				side = "second"
			}
			list = append(list, fmt.Sprintf("%s %s is in the %s only", what, quote(fmt.Sprint(e)), side))
		}
	}
	return list
}

// About returns a document of several things as one about the first of them that
// is meant: without the others, and without what belongs to those only. A
// described file is offered as a package. The document keeps the bytes of the
// whole one; others is how many things were left out, 0 if none is meant.
func (d Document) About(meant func(Package) bool) (one Document, others int) {
	m, leads, described := *d.model(), map[string][]string{}, map[string]bool{}
	for _, r := range m.relationships {
		if strings.HasSuffix(r.Type, "_OF") && r.Type != DescendantOf || strings.HasSuffix(r.Type, "_BY") {
			r.From, r.To = r.To, r.From // such as DEPENDENCY_OF and DESCRIBED_BY
		}
		if r.From == DocumentID && (r.Type == Describes || r.Type == describedBy) {
			described[r.To] = true
		} else if strings.HasPrefix(r.From, elementPrefix) {
			leads[r.From] = append(leads[r.From], r.To)
		}
	}
	candidates := slices.Clone(m.packages)
	for _, f := range m.files {
		candidates = append(candidates, Package{ID: f.ID, Digests: f.Digests})
	}
	at := slices.IndexFunc(candidates, func(p Package) bool { return described[p.ID] && meant(p) })
	if len(described) < 2 || at < 0 {
		return d, 0
	}
	mine, theirs := reached(leads, candidates[at].ID), reached(leads, slices.Collect(maps.Keys(described))...)
	gone := func(id string) bool { return theirs[id] && !mine[id] && strings.HasPrefix(id, elementPrefix) }
	m.packages = slices.DeleteFunc(slices.Clone(m.packages), func(p Package) bool { return gone(p.ID) })
	m.files = slices.DeleteFunc(slices.Clone(m.files), func(f File) bool { return gone(f.ID) })
	m.relationships = slices.DeleteFunc(slices.Clone(m.relationships), func(r Relationship) bool {
		return gone(r.From) || gone(r.To) || r.Type == Describes && r.From == DocumentID || r.Type == describedBy && r.To == DocumentID
	})
	m.relationships = append(m.relationships, Relationship{From: DocumentID, Type: Describes, To: candidates[at].ID})
	c := &checker{m: &m, elements: map[string]element{}}
	c.register()
	m.about = c.describe(c.elements[candidates[at].ID])
	return Document{m: &m, raw: d.raw}, len(described) - 1
}

// reached are elements, and all that they lead to.
func reached(leads map[string][]string, ids ...string) map[string]bool {
	all := map[string]bool{}
	for len(ids) > 0 {
		id := ids[len(ids)-1]
		if ids = ids[:len(ids)-1]; !all[id] {
			all[id] = true
			ids = append(ids, leads[id]...)
		}
	}
	return all
}
