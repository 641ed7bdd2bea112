package spdx

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// CompareAll is [Compare] for all documents of two releases: each change once,
// with the artifacts in which it occurs. Two documents belong together if the
// things that they describe have the same name, in any version. Documents that
// only list the artifacts of a release are left out. compared is the number of
// documents.
func CompareAll(from, to []Document) (changes []Change, compared int, err error) {
	was, err := bySubject(from)
	if err != nil {
		return nil, 0, err
	}
	is, err := bySubject(to)
	if err != nil {
		return nil, 0, err
	}
	names := maps.Clone(was)
	maps.Copy(names, is)
	type key struct{ kind, name, from, to, note string }
	in := map[key][]string{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		before, was := was[name]
		after, is := is[name]
		switch {
		case !is:
			changes = append(changes, Change{Kind: "artifact", Name: name, From: cmp.Or(before.DescribedVersion(), NoAssertion)})
		case !was:
			changes = append(changes, Change{Kind: "artifact", Name: name, To: cmp.Or(after.DescribedVersion(), NoAssertion)})
		default:
			compared++
			for _, c := range Compare(before, after) {
				k := key{c.Kind, c.Name, c.From, c.To, c.Note}
				in[k] = append(in[k], name)
			}
		}
	}
	for k, list := range in {
		changes = append(changes, Change{Kind: k.kind, Name: k.name, From: k.from, To: k.to, Note: k.note, In: list})
	}
	order := []string{"artifact", "package", "file"}
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)), strings.Compare(a.Name, b.Name),
			strings.Compare(a.From, b.From), strings.Compare(a.To, b.To), slices.Compare(a.In, b.In))
	})
	return changes, compared, nil
}

// bySubject maps the name of the described thing to its document.
func bySubject(list []Document) (map[string]Document, error) {
	out := map[string]Document{}
	for _, d := range list {
		if d.lists() {
			continue
		}
		name, _ := d.Describes()
		if v := strings.TrimPrefix(d.DescribedVersion(), "v"); len(v) > 2 {
			name = strings.ReplaceAll(name, v, "{version}")
		}
		if _, twice := out[name]; twice {
			return nil, verdict.Refuse(verdict.Usage, name, "two documents describe this artifact; name one release only")
		}
		out[name] = d
	}
	return out, nil
}

// lists reports whether a document describes a release as a whole.
func (d Document) lists() bool {
	for _, r := range d.model().relationships {
		if r.Type != Describes || r.From != DocumentID {
			continue
		}
		for _, p := range d.model().packages {
			if p.ID == r.To {
				return p.Purpose == Install && p.Digests.IsZero()
			}
		}
	}
	return false
}
