package sbom

import (
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/sbom/distro"
)

// rootFS is the result of stacking the layers of an image.
type rootFS struct {
	programs  map[string]placed[program]
	histories map[string][]placed[[]distro.Package] // versions of each database, oldest first
	releases  map[string]distro.Release
	copyright map[string]string
}

// placed is a value with the number of its layer.
type placed[T any] struct {
	what  T
	layer int
}

func newRootFS() *rootFS {
	return &rootFS{
		programs: map[string]placed[program]{}, histories: map[string][]placed[[]distro.Package]{},
		releases: map[string]distro.Release{}, copyright: map[string]string{},
	}
}

// apply applies layer number n.
func (r *rootFS) apply(n int, l *layerFacts) {
	gone := func(name string) bool { return l.removes(name) || l.holds(name) }
	maps.DeleteFunc(r.programs, func(name string, _ placed[program]) bool { return gone(name) })
	maps.DeleteFunc(r.releases, func(name string, _ distro.Release) bool { return gone(name) })
	maps.DeleteFunc(r.histories, func(name string, _ []placed[[]distro.Package]) bool {
		// A rewritten database continues; a removed one ends.
		_, anew := l.databases[name]
		return l.removes(name) || l.holds(name) && !anew
	})
	for name, p := range l.programs {
		r.programs[name] = placed[program]{p, n}
	}
	for name, list := range l.databases {
		r.histories[name] = append(r.histories[name], placed[[]distro.Package]{list, n})
	}
	maps.Copy(r.releases, l.releases)
	maps.Copy(r.copyright, l.copyrights)
}

// removes reports whether the layer removes a file of a lower layer: the file,
// a directory above it, or the contents of one. A non-directory replaces a
// directory with everything below it.
func (l *layerFacts) removes(name string) bool {
	return l.isBelowLeaf(name) ||
		slices.ContainsFunc(l.opaque, func(dir string) bool { return strings.HasPrefix(name, dir) }) ||
		slices.ContainsFunc(l.whiteouts, func(w string) bool { return name == w || strings.HasPrefix(name, w+"/") })
}

// found is a package of a distribution with the layer that brought it.
type found struct {
	distro.Package
	database string
	layer    int
}

// packages lists the packages in the final databases. The layer of origin of a
// package is the first since which it was always listed.
func (r *rootFS) packages() (list []found) {
	release := facts{copyrights: r.copyright}
	for _, name := range slices.Sorted(maps.Keys(r.histories)) {
		history := r.histories[name]
		origin := map[distro.Package]int{}
		for i, version := range history {
			now := make(map[distro.Package]int, len(version.what))
			for _, p := range version.what {
				now[p] = version.layer
				if since, before := origin[p]; before && i > 0 {
					now[p] = since
				}
			}
			origin = now
		}
		for _, p := range history[len(history)-1].what {
			list = append(list, found{release.licensed(p), name, origin[p]})
		}
	}
	return list
}

// release is the name that the image gives itself.
func (r *rootFS) release() distro.Release {
	return (&facts{releases: r.releases}).release()
}
