package sbom

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/sbom/distro"
)

// Bounds of links: how many of one layer are known, and how many are followed
// for one path.
const (
	maxLayerLinks = 1 << 18
	maxHops       = 40
)

// tree is the layers of an image, one upon the other, the lowest first. It says
// where a path leads for whoever runs the image: inside of its root.
type tree []*layerFacts

// at is what lies at a path whose directories are no links: nothing, something,
// or a symbolic link and where it leads.
func (t tree) at(name string) (target string, link, there bool) {
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

// last is the number of the layer that has a name last; 0 if none has.
func (t tree) last(name string) int {
	for i, l := range slices.Backward(t) {
		if l.holds(name) {
			return i
		}
	}
	return 0
}

// resolve follows the links in a path, to a path without any.
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
		to, link, _ := t.at(at)
		if !link {
			done = at
			continue
		}
		if hops++; hops > maxHops {
			return "", fmt.Errorf("more than %d links lead on from it", maxHops)
		}
		if strings.HasPrefix(to, "/") {
			done = ""
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return done, nil
}

// unread lists the package databases that are not where they are looked for:
// links lead from there to something that was not read.
func (t tree) unread() (list []string) {
	for _, name := range []string{
		distro.APKDatabase, distro.APKDatabase2, distro.DpkgDatabase, path.Clean(distro.DpkgStatusDir), distro.OSRelease, distro.OSRelease2,
	} {
		to, err := t.resolve(name)
		if err != nil {
			list = append(list, fmt.Sprintf("%s: %s", name, err))
			continue
		}
		if _, _, there := t.at(to); there && to != name && !isDatabase(to) && !isDatabase(to+"/x") {
			list = append(list, fmt.Sprintf("%s: a link leads to %s, which is not read", name, clean(to)))
		}
	}
	return list
}

// linked takes a symbolic link.
func (l *layerFacts) linked(x *examiner, name, target string) {
	if len(l.links) >= maxLayerLinks {
		x.missed(name, errors.New("the layer has more symbolic links than are followed"))
		return
	}
	l.links[name] = target
}

// isAbove reports whether the layer has an entry below this name.
func (l *layerFacts) isAbove(name string) bool { return l.parents.has(l, name) }

// names are kept as hashes under a key that nobody can know: layers have many.
type names map[uint64]struct{}

func (n names) has(l *layerFacts, name string) bool {
	_, there := n[l.hash(name)]
	return there
}

// above calls do for each directory above a name, until it returns false.
func above(name string, do func(dir string) bool) {
	for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name[:i], '/') {
		if !do(name[:i]) {
			return
		}
	}
}

// imply notes the directories above a name that the layer needs, and has not
// brought yet. A symbolic link of a lower layer in the place of one is followed
// by some of the programs that run images, and replaced by others.
func (l *layerFacts) imply(name string) {
	var dirs []uint64
	above(name, func(dir string) bool {
		key := l.hash(dir)
		_, known := l.parents[key]
		_, brought := l.names[key]
		_, gone := l.gone[key]
		if gone {
			dirs = nil // with all that was in it
		} else if !known && !brought {
			dirs = append(dirs, key)
		}
		return !gone && (!known || len(l.gone) > 0)
	})
	for _, key := range dirs {
		l.implied[key] = struct{}{}
	}
}

// takesAway takes a whiteout, and the name that is gone by it; "" for one of all
// that was in a directory.
func (l *layerFacts) takesAway(x *examiner, entry, name string) {
	switch {
	case name != "" && l.holds(name):
		x.missed(name, errors.New("the layer brings it, and takes it away"))
		l.doubts(name)
	case l.isBelowLeaf(entry):
		x.missed(entry, errors.New("the layer takes away below something that is no directory"))
		l.doubts(entry)
	}
	if l.imply(entry); name != "" {
		l.whiteouts = append(l.whiteouts, name)
		l.gone[l.hash(name)] = struct{}{}
	}
}

// doubts notes that programs which run images disagree about what the layer
// does.
func (l *layerFacts) doubts(name string) {
	if l.doubt == "" {
		l.doubt = name
	}
}

// doubts names for each layer something of which programs that run images make
// different things, if there is: a symbolic link, of the layer or of one below
// it, that entries of the layer lie below.
func (t tree) doubts() []string {
	all := make([]string, len(t))
	for i, l := range t {
		all[i] = l.doubt
		for _, lower := range t[:i] {
			for name := range lower.links {
				if (all[i] == "" || name < all[i]) && l.implied.has(l, name) {
					if _, link, _ := t[:i].at(name); link {
						all[i] = name
					}
				}
			}
		}
	}
	return all
}

// crossed are the links that entries of later layers lie below.
func (t tree) crossed() (list []string) {
	for i, name := range t.doubts() {
		if name != t[i].doubt {
			list = append(list, name+": a symbolic link, below which a later layer has entries: some programs write them to where it leads")
		}
	}
	return list
}
