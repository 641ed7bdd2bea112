package plan

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits of lists, after inclusion.
const (
	maxList  = 10_000
	maxLists = 200_000 // of all lists together
)

// lists are the named lists of the file, with inclusions expanded.
type lists struct {
	raw   map[string][]text
	done  map[string][]text
	open  map[string]bool
	total int
}

func readLists(n node) lists {
	l := lists{raw: map[string][]text{}, done: map[string][]text{}, open: map[string]bool{}}
	if !n.given() {
		return l
	}
	keys, values := n.pairs("a mapping from names to lists")
	for i, key := range keys {
		if key.given() && !isName(key.s) {
			n.r.faults = append(n.r.faults, key.at.fault("list %s: want a name of lower-case letters, digits and dashes", quote(key.s)))
		}
		l.raw[key.s] = values[i].words("items")
	}
	for _, key := range keys {
		l.named(n, key.s, key.at)
	}
	return l
}

func (l *lists) named(n node, name string, at where) []text {
	if list, ok := l.done[name]; ok {
		return list
	}
	items, ok := l.raw[name]
	switch {
	case !ok:
		n.r.faults = append(n.r.faults, at.fault("no list %s; there is %s", quote(name), l.known()))
		return nil
	case l.open[name]:
		n.r.faults = append(n.r.faults, at.fault("list %s includes itself", quote(name)))
		return nil
	}
	l.open[name] = true
	list := l.flat(n, items)
	l.open[name] = false
	l.done[name] = list
	return list
}

// flat expands every "+x" of a list. An item that comes twice is refused: it
// would make two artifacts of one name.
func (l *lists) flat(n node, items []text) []text {
	list, seen := make([]text, 0, len(items)), map[string]bool{}
	for _, item := range items {
		part := []text{item}
		if name, includes := strings.CutPrefix(item.s, "+"); includes {
			part = l.named(n, name, item.at)
		}
		for _, t := range part {
			if seen[t.s] {
				n.r.faults = append(n.r.faults, item.at.fault("%s brings in %s a second time; include it once", quote(item.s), quote(t.s)))
				return list
			}
			seen[t.s] = true
			// The position is that of the use, not of the item in the list:
			// that is the line to change.
			list = append(list, text{s: t.s, at: item.at})
		}
		if l.total += len(part); len(list) > maxList || l.total > maxLists {
			n.r.faults = append(n.r.faults, item.at.fault("lists are too long; at most %d items in one and %d in all", maxList, maxLists))
			return nil
		}
	}
	return list
}

func (l *lists) known() string {
	if len(l.raw) == 0 {
		return "none: declare it under lists"
	}
	return strings.Join(slices.Sorted(maps.Keys(l.raw)), ", ")
}

// read reads the name of a list, or a list that may include others.
func (l *lists) read(n node) []text {
	switch {
	case !n.given():
		return nil
	case n.isText():
		t := n.text()
		return l.flat(n, []text{{s: "+" + t.s, at: t.at}})
	case n.tree.Kind == yaml.SequenceNode:
		return l.flat(n, n.words("items, or +name to include a list"))
	}
	n.fail("want the name of a list, or a list")
	return nil
}

// platforms reads platforms: each is os/arch.
func (l *lists) platforms(n node) []text {
	list := l.read(n)
	for _, t := range list {
		if !isPlatform(t.s) {
			n.fail("platform %s: want os/arch", quote(t.s))
			return nil
		}
	}
	return list
}

// some reads a platform, the name of a list of platforms, or a list of both.
func (l *lists) some(n node) []text {
	if n.isText() && strings.Contains(n.tree.Value, "/") {
		t := n.text()
		if !isPlatform(t.s) {
			n.fail("platform %s: want os/arch", quote(t.s))
		}
		return []text{t}
	}
	return l.platforms(n)
}

func isPlatform(s string) bool {
	goos, arch, ok := strings.Cut(s, "/")
	return ok && isName(goos) && isName(arch)
}
