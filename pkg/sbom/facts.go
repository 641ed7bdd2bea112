package sbom

import (
	"cmp"
	"maps"
	"slices"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/sbom/distro"
)

// installedIn adds the distribution packages found in the texts.
func (b *builder) installedIn(x *examiner) {
	facts := x.facts
	for name, raw := range x.texts {
		facts.text(name, raw)
	}
	b.unexamined(facts.faults())
	release := facts.release()
	system := b.distribution(release)
	if system != "" {
		b.relate(artifactID, spdx.Contains, system, "")
	}
	for _, name := range slices.Sorted(maps.Keys(facts.databases)) {
		for _, p := range facts.databases[name] {
			b.relate(artifactID, spdx.Contains, b.installed(facts.licensed(p), release, "listed in "+name), "")
		}
	}
}

// facts are the package databases in a tree of files.
type facts struct {
	databases  map[string][]distro.Package
	releases   map[string]distro.Release
	copyrights map[string]string
	bad        map[string]error
}

func newFacts() *facts {
	return &facts{
		databases: map[string][]distro.Package{}, releases: map[string]distro.Release{},
		copyrights: map[string]string{}, bad: map[string]error{},
	}
}

// text adds one file of the distribution.
func (f *facts) text(name string, raw []byte) {
	var err error
	switch {
	case name == distro.APKDatabase || name == distro.APKDatabase2:
		f.databases[name], err = distro.ParseAPK(raw)
	case name == distro.OSRelease || name == distro.OSRelease2:
		f.releases[name] = distro.ParseRelease(raw)
	case distro.CopyrightOf(name) != "":
		f.copyrights[distro.CopyrightOf(name)] = distro.ParseCopyright(raw)
	case isDatabase(name):
		f.databases[name], err = distro.ParseDpkg(raw)
	}
	if err != nil {
		delete(f.databases, name)
		f.bad[name] = err
	}
}

// release is the name that the tree gives itself.
func (f *facts) release() distro.Release {
	if r, there := f.releases[distro.OSRelease]; there && r.ID != "" {
		return r
	}
	return f.releases[distro.OSRelease2]
}

// licensed adds the licences that a copyright file declares.
func (f *facts) licensed(p distro.Package) distro.Package {
	p.Licence = cmp.Or(p.Licence, f.copyrights[p.Name])
	return p
}

func (f *facts) faults() (list []string) {
	for _, name := range slices.Sorted(maps.Keys(f.bad)) {
		list = append(list, name+": "+f.bad[name].Error())
	}
	return list
}
