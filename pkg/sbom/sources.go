package sbom

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/mod/module"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/sbom/gomod"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// sources adds the Go modules of the source trees in the texts. licences are
// the files recognised as licence texts.
func (b *builder) sources(x *examiner, licences map[string]string) error {
	var works, dirs []string
	for _, name := range slices.Sorted(maps.Keys(x.texts)) {
		switch {
		case strings.Contains("/"+name, "/vendor/"):
		case path.Base(name) == "go.work":
			works = append(works, path.Dir(name))
		case path.Base(name) == "go.mod":
			dirs = append(dirs, path.Dir(name))
		}
	}
	if len(dirs) == 0 && len(works) == 0 {
		return nil
	}
	tree, err := gomod.ReadTree(x.texts, works, dirs)
	if err != nil {
		return err
	}
	b.unexamined(tree.Faults)
	b.unexamined(unlisted(x, tree.Modules, works))
	sources := map[string]string{} // identifiers by directory
	top := topmost(tree.Modules)
	for _, m := range tree.Modules {
		version := ""
		if m.Dir == top {
			version = b.version()
		}
		sources[m.Dir] = b.source(m, version, licences)
	}
	for _, m := range tree.Modules {
		for _, d := range m.Deps {
			b.needed(m, d, sources, licences)
		}
	}
	return nil
}

// unlisted returns the vendor directories without the list of their modules:
// the go command does not build from them.
func unlisted(x *examiner, all []gomod.SourceModule, works []string) (parts []string) {
	for _, dir := range slices.Sorted(maps.Keys(x.seen.copies)) {
		of := path.Dir(dir)
		needs := slices.Contains(works, of) ||
			slices.ContainsFunc(all, func(m gomod.SourceModule) bool { return m.Dir == of && len(m.Deps) > 0 })
		if _, listed := x.texts[path.Join(dir, "modules.txt")]; needs && !listed {
			parts = append(parts, dir+": copies of modules, without a modules.txt that lists them")
		}
	}
	return parts
}

// topmost returns the directory of the module that the release is a version of:
// the one above all others. Nested modules have their own versions, which the
// tree does not record.
func topmost(all []gomod.SourceModule) string {
	if len(all) == 0 {
		return ""
	}
	top := slices.MinFunc(all, func(x, y gomod.SourceModule) int { return cmp.Compare(depth(x.Dir), depth(y.Dir)) })
	for _, m := range all {
		if m.Dir != top.Dir && top.Dir != "." && !strings.HasPrefix(m.Dir, top.Dir+"/") {
			return ""
		}
	}
	return top.Dir
}

func depth(dir string) int {
	if dir == "." {
		return 0
	}
	return 1 + strings.Count(dir, "/")
}

// source adds one module of the tree; version is that of the release, if it
// applies to this module.
func (b *builder) source(m gomod.SourceModule, version string, licences map[string]string) string {
	main := spdx.Package{
		ID: elementID("Source", m.Dir+" "+m.Path), Name: clean(m.Path), Version: version, Purpose: spdx.Source,
		PURL: gomod.PURL(clean(m.Path), version), Source: "the Go module in " + clean(m.Dir), Licence: licenceIn(m.Dir, licences), Supplier: b.in.supplier(),
	}
	published(&main, m.Path)
	if !gomod.IsModule(m.Path, version) {
		main.PURL = ""
		if gomod.IsModule(m.Path, "") {
			main.PURL = gomod.PURL(clean(m.Path), "")
		}
	}
	var said []string
	if m.Toolchain != "" || m.Go != "" {
		said = append(said, fmt.Sprintf("Written for Go %s. Suggested toolchain: %s.", cmp.Or(m.Go, "of any version"), cmp.Or(m.Toolchain, "none")))
	}
	if m.Work != "" {
		said = append(said, "Built in the workspace of "+m.Work+".")
	}
	if m.Vendor != "" {
		said = append(said, "The modules that were copied to "+m.Vendor+" are listed.")
	}
	main.Comment = clean(strings.Join(said, " "))
	id := b.add(main)
	b.relate(artifactID, spdx.Contains, id, "")
	if m.Incomplete != "" {
		b.unexamined([]string{m.Incomplete})
	}
	return id
}

// needed adds a dependency of a module of the tree. It may be another module of
// the tree.
func (b *builder) needed(m gomod.SourceModule, d gomod.Module, sources, licences map[string]string) {
	from := sources[m.Dir]
	if d.Local != "" {
		if to := sources[d.Local]; to != from {
			b.relate(from, spdx.DependsOn, to, "the module in "+clean(d.Local))
		}
		return
	}
	comment := ""
	if d.Asked != "" {
		comment = "go.mod requires " + clean(d.Asked) + ", the workspace selects this"
	}
	dep := b.module(d, "Module")
	b.relate(from, spdx.DependsOn, dep, comment)
	if m.Vendor != "" {
		if l := licenceIn(d.VendorDir(m.Vendor), licences); l != "" {
			b.declare(dep, l)
		}
	}
}

// tool is the name and version of Waybill, which may be a library.
func (in Input) tool() string {
	version := in.Tool
	if info, ok := debug.ReadBuildInfo(); ok && version == "" {
		for _, m := range append(slices.Clip(info.Deps), &info.Main) {
			if m.Path == "github.com/waybill-release/waybill" {
				version = m.Version
			}
		}
	}
	return "waybill-" + cmp.Or(strings.Trim(version, "()"), "devel")
}

// supplier is the supplier as SPDX writes it, or "".
func (in Input) supplier() string {
	name := clean(in.Supplier)
	if strings.Contains(name, "://") && !strings.Contains(name, " ") {
		name = origin(name)
	}
	if name == "" || strings.HasPrefix(name, "Organization: ") || strings.HasPrefix(name, "Person: ") {
		return name
	}
	return "Organization: " + name
}

// origin names host and owner of a Go module or of the address of a repository,
// or the host alone where owners are not known.
func origin(path string) string {
	if u, err := url.Parse(path); err == nil && u.Scheme != "" {
		path = u.Host + u.Path
	}
	host, rest, _ := strings.Cut(path, "/")
	owner, _, _ := strings.Cut(rest, "/")
	if module.CheckPath(host) != nil || strings.ContainsAny(owner, " ()") {
		return ""
	}
	if owned := []string{"github.com", "gitlab.com", "codeberg.org", "bitbucket.org", "git.sr.ht", "golang.org"}; slices.Contains(owned, host) && owner != "" {
		host += "/" + owner
	}
	return host + " (https://" + host + ")"
}

// beforeBuild is the context of a document about a directory.
const beforeBuild = "Generation context: Source (before the build)."

// published sets the supplier and originator of a package from its address.
func published(p *spdx.Package, path string) {
	p.Originator = Input{Supplier: origin(path)}.supplier()
	p.Supplier = cmp.Or(p.Supplier, p.Originator)
}

// stateUnknown writes which elements of a package are unknown, and why, as the
// last line of its comment.
func stateUnknown(p *spdx.Package) {
	var said []string
	for _, e := range []struct {
		lacks        bool
		name, reason string
	}{
		{p.Version == "" || p.Version == spdx.NoAssertion, "version", "none was recorded"},
		{p.Supplier+p.Originator == "", "supplier", "nothing names one"},
		{p.Digests == digest.Set{} && p.PURL == "", "identifier", "it has no package URL"},
		{p.Digests == digest.Set{}, "hash", "its own bytes are not a part of what was described"},
		{p.Licence == "", "licence", "no declaration and no known text was found"},
	} {
		if e.lacks {
			said = append(said, e.name+" ("+e.reason+")")
		}
	}
	if len(said) > 0 {
		p.Comment = strings.TrimPrefix(p.Comment+"\n"+sbomcheck.Unknown+strings.Join(said, ", "), "\n")
	}
}
