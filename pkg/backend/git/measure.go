package git

import "github.com/waybill-release/waybill/pkg/value/verdict"

// measured is how many entries a tree has, including all below it, and how deep
// it is.
type measured struct{ entries, deep int }

// entriesBelow counts the entries that a tree would have on disk. A few trees that
// name each other repeatedly are small to store and endless to write: each is
// read here once.
func (w *checkout) entriesBelow(id, at string, depth int, known map[string]measured) (measured, error) {
	if m, ok := known[id]; ok {
		return m, nil
	}
	if depth > maxTreeDeep {
		return measured{}, w.commit.refuse(at, verdict.Limit, "the tree is too deep")
	}
	entries, err := w.objects.tree(id)
	if err != nil {
		return measured{}, err
	}
	m := measured{entries: len(entries), deep: 1}
	for _, e := range entries {
		if e.mode != "40000" {
			continue
		}
		below, err := w.entriesBelow(e.id, at+"/"+e.name, depth+1, known)
		if err != nil {
			return measured{}, err
		}
		m.entries, m.deep = m.entries+below.entries, max(m.deep, 1+below.deep)
		if m.entries > maxEntries {
			return measured{}, w.commit.refuse(at+"/"+e.name, verdict.Limit, "the tree has too many entries")
		}
		if depth+m.deep > maxTreeDeep+1 {
			return measured{}, w.commit.refuse(at+"/"+e.name, verdict.Limit, "the tree is too deep")
		}
	}
	known[id] = m
	return m, nil
}
