package sbom

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/sbom/distro"
)

// Limits of links: how many of one layer are kept, and how many are followed
// for one path.
const (
	maxLayerLinks = 1 << 18
	maxHops       = 40
)

// tree is the stack of layers of an image, lowest first. It resolves paths as
// in a running image: inside of its root.
type tree []*layerFacts

// lookup returns what is at a path whose parent directories are not links: nothing,
// something, or a symbolic link and its target.
func (t tree) lookup(name string) (target string, link, there bool) {
	for _, l := range slices.Backward(t) {
		if to, is := l.links[name]; is {
			return to, true, true
		}
		if l.holds(name) || l.isAbove(name) {
			return "", false, true
		}
		if l.removes(name) {
			return "", false, false
		}
	}
	return "", false, false
}

// topmostLayer returns the number of the topmost layer with a name; 0 if none.
func (t tree) topmostLayer(name string) int {
	for i, l := range slices.Backward(t) {
		if l.holds(name) {
			return i
		}
	}
	return 0
}

// resolve follows all links in a path.
func (t tree) resolve(name string) (string, error) {
	done, rest, hops := "", strings.Split(name, "/"), 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			done = strings.TrimPrefix(path.Dir("/"+done), "/")
			continue
		}
		at := path.Join(done, part)
		to, link, _ := t.lookup(at)
		if !link {
			done = at
			continue
		}
		if hops++; hops > maxHops {
			return "", fmt.Errorf("more than %d links to follow", maxHops)
		}
		if strings.HasPrefix(to, "/") {
			done = ""
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return done, nil
}

// unreadDatabases lists the package databases that are not found where expected: links
// lead to files that were not read.
func (t tree) unreadDatabases() (list []string) {
	for _, name := range []string{
		distro.APKDatabase, distro.APKDatabase2, distro.DpkgDatabase, path.Clean(distro.DpkgStatusDir), distro.OSRelease, distro.OSRelease2, "var/lib/rpm/Packages",
	} {
		to, err := t.resolve(name)
		if err != nil {
			list = append(list, fmt.Sprintf("%s: %s", name, err))
			continue
		}
		if _, _, there := t.lookup(to); there && to != name && !isDatabase(to) && !isDatabase(to+"/x") {
			list = append(list, fmt.Sprintf("%s: a link leads to %s, which is not read", name, clean(to)))
		}
	}
	return list
}

func (l *layerFacts) linked(x *examiner, name, target string) {
	if len(l.links) >= maxLayerLinks {
		x.missed(name, errors.New("the layer has more symbolic links than are followed"))
		return
	}
	l.links[name] = target
}

// isAbove reports whether the layer has an entry below this name.
func (l *layerFacts) isAbove(name string) bool { return l.parents.has(l, name) }

// names are stored as hashes with a secret key: layers have many.
type names map[uint64]struct{}

func (n names) has(l *layerFacts, name string) bool {
	_, there := n[l.hash(name)]
	return there
}

// above calls do for each directory above a name, until do returns false.
func above(name string, do func(dir string) bool) {
	for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name[:i], '/') {
		if !do(name[:i]) {
			return
		}
	}
}

// addParents records the directories above a name that the layer needs but has not
// added yet. If a lower layer has a symbolic link there, some programs follow
// it and others replace it.
func (l *layerFacts) addParents(name string) {
	var dirs []uint64
	above(name, func(dir string) bool {
		key := l.hash(dir)
		_, known := l.parents[key]
		_, brought := l.names[key]
		_, gone := l.gone[key]
		if gone {
			dirs = nil // with its earlier contents
		} else if !known && !brought {
			dirs = append(dirs, key)
		}
		return !gone && (!known || len(l.gone) > 0)
	})
	for _, key := range dirs {
		l.implied[key] = struct{}{}
	}
}

// takesAway parses a whiteout and returns the removed name; "" for the contents
// of a directory.
func (l *layerFacts) takesAway(x *examiner, entry, name string) {
	switch {
	case name != "" && l.holds(name):
		x.missed(name, errors.New("the layer both adds and removes this name"))
		l.doubts(name)
	case l.isBelowLeaf(entry):
		x.missed(entry, errors.New("the layer removes a name below something that is not a directory"))
		l.doubts(entry)
	}
	if l.addParents(entry); name != "" {
		l.whiteouts = append(l.whiteouts, name)
		l.gone[l.hash(name)] = struct{}{}
	}
}

// doubts records that programs which run images disagree about the layer.
func (l *layerFacts) doubts(name string) {
	l.doubt = cmp.Or(l.doubt, name)
}

// doubts returns, for each layer, a name that programs which run images
// interpret differently, if there is one: a symbolic link, of the layer or of
// one below, with entries of the layer below it.
func (t tree) doubts() []string {
	all := make([]string, len(t))
	for i, l := range t {
		all[i] = l.doubt
		for _, lower := range t[:i] {
			for name := range lower.links {
				if (all[i] == "" || name < all[i]) && l.implied.has(l, name) {
					if _, link, _ := t[:i].lookup(name); link {
						all[i] = name
					}
				}
			}
		}
	}
	return all
}

// crossed returns the links with entries of later layers below them.
func (t tree) crossed() (list []string) {
	for i, name := range t.doubts() {
		if name != t[i].doubt {
			list = append(list, name+": a symbolic link with entries of a later layer below it: some programs write those to its target")
		}
	}
	return list
}
