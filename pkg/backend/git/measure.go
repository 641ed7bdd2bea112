package git

// measure counts the entries that a tree would have on disk, before anything is
// written. A few trees that name each other repeatedly are small to store and
// endless to write: each is read here once.
func (w *checkout) measure() error {
	_, err := w.entriesBelow(w.commit.Tree, "", 0, map[string]measured{})
	return err
}

// measured is how many entries a tree has, including all below it, and how deep
// it is.
type measured struct{ entries, deep int }

func (w *checkout) entriesBelow(id, at string, depth int, known map[string]measured) (measured, error) {
	if m, ok := known[id]; ok {
		return m, nil
	}
	if depth > maxTreeDeep {
		return measured{}, w.refuse(at, "LIMIT", "the tree is too deep")
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
			return measured{}, w.refuse(at+"/"+e.name, "LIMIT", "the tree has too many entries")
		}
		if depth+m.deep > maxTreeDeep+1 {
			return measured{}, w.refuse(at+"/"+e.name, "LIMIT", "the tree is too deep")
		}
	}
	known[id] = m
	return m, nil
}
