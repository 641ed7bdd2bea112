package spdx

import (
	"maps"
	"slices"
	"strings"
)

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
