package spdx

import (
	"slices"
	"strings"
)

// Described lists the identifiers of the elements that the document describes.
func (d Document) Described() (ids []string) {
	seen := map[string]bool{}
	for _, r := range d.model().relationships {
		if r.Type == describedBy {
			r.From, r.To = r.To, r.From
		} else if r.Type != Describes {
			continue
		}
		if r.From == DocumentID && !seen[r.To] {
			seen[r.To] = true
			ids = append(ids, r.To)
		}
	}
	return ids
}

// About returns a document of several things as one about the element id alone:
// without the others that it describes, and without what belongs to those only.
// Its bytes remain those of the whole document.
func (d Document) About(id string) Document {
	m, leads := *d.model(), map[string][]string{}
	for _, r := range m.relationships {
		if strings.HasSuffix(r.Type, "_OF") && r.Type != DescendantOf || strings.HasSuffix(r.Type, "_BY") {
			r.From, r.To = r.To, r.From // such as DEPENDENCY_OF
		}
		if strings.HasPrefix(r.From, elementPrefix) && r.From != DocumentID {
			leads[r.From] = append(leads[r.From], r.To)
		}
	}
	mine, theirs := reached(leads, id), reached(leads, d.Described()...)
	gone := func(id string) bool { return theirs[id] && !mine[id] && strings.HasPrefix(id, elementPrefix) }
	m.packages = slices.DeleteFunc(slices.Clone(m.packages), func(p Package) bool { return gone(p.ID) })
	m.files = slices.DeleteFunc(slices.Clone(m.files), func(f File) bool { return gone(f.ID) })
	m.relationships = slices.DeleteFunc(slices.Clone(m.relationships), func(r Relationship) bool {
		return gone(r.From) || gone(r.To) || r.Type == Describes && r.From == DocumentID || r.Type == describedBy && r.To == DocumentID
	})
	m.relationships = append(m.relationships, Relationship{From: DocumentID, Type: Describes, To: id})
	c := &checker{m: &m, elements: map[string]element{}}
	c.register()
	m.about = c.describe(c.elements[id])
	return Document{m: &m, raw: d.raw}
}

// reached lists elements, and all that they lead to.
func reached(leads map[string][]string, ids ...string) map[string]bool {
	seen := map[string]bool{}
	for len(ids) > 0 {
		id := ids[len(ids)-1]
		if ids = ids[:len(ids)-1]; !seen[id] {
			seen[id] = true
			ids = append(ids, leads[id]...)
		}
	}
	return seen
}
