package sbom

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/sbom/distro"
	"github.com/waybill-release/waybill/pkg/sbom/gomod"
)

// mainKind is the kind of main modules in element identifiers.
const mainKind = "Main"

// module adds a Go module. Modules with one checksum are one package of the
// document, in whichever programs they are.
func (b *builder) module(m gomod.Module, kind string) string {
	purpose := spdx.Library
	if kind == mainKind {
		purpose = spdx.Source
	}
	p := spdx.Package{
		ID:   namedID(kind, m.Path+"-"+m.Version, strings.Join([]string{m.Path, m.Version, m.Replaces, m.Sum}, "@")),
		Name: clean(m.Path), Version: clean(m.Version), Purpose: purpose, PURL: clean(m.PURL()), Sum: sumOf(m),
	}
	if kind == mainKind && !gomod.IsModule(m.Path, m.Version) {
		// A command of the Go distribution, a changed work tree, or an invalid
		// version for this module: other tools cannot look it up.
		p.PURL = ""
		if gomod.IsModule(m.Path, "") {
			p.PURL = clean(gomod.PURL(m.Path, ""))
		}
	}
	if m.Dir == "" {
		published(&p, m.Path)
	}
	if m.Replaces != "" {
		p.Comment = "Replaces " + clean(m.Replaces) + "."
	}
	if m.Dir != "" {
		// Other tools cannot look it up by name.
		p.Comment += " The replacement is a directory of the source tree."
	}
	return b.add(p)
}

// sumOf returns the checksum of a module if it is well formed.
func sumOf(m gomod.Module) string {
	if !strings.HasPrefix(m.Sum, "h1:") || len(m.Sum) > 100 || clean(m.Sum) != m.Sum || strings.Contains(m.Sum, " ") {
		return ""
	}
	return m.Sum
}

// version returns the version of the release, or "".
func (b *builder) version() string {
	if b.in.Version == spdx.NoAssertion {
		return ""
	}
	return b.in.Version
}

// program adds the components of a Go program below its element. own is the
// version to use if the linker recorded none, or "".
func (b *builder) program(id string, bin gomod.Binary, own string) {
	if bin.Main.Path == "" && strings.HasPrefix(bin.Package, "cmd/") {
		// Part of the Go distribution, which is not a module.
		bin.Main = gomod.Module{Path: bin.Package, Version: numberOf(bin.GoVersion)}
	}
	if bin.Main.Path != "" {
		main := bin.Main
		main.Version = cmp.Or(main.Version, own)
		b.relate(id, spdx.GeneratedFrom, b.mainModule(main, bin), "main module, package "+clean(bin.Package))
		if id == artifactID {
			published(b.subject(), main.Path)
		}
	}
	if len(bin.Deps) > 0 {
		b.relateOnce(artifactID, spdx.DependsOn, spdx.NoAssertion, "unknown: which module of a program needs which; a program lists only all of them")
	}
	for _, m := range bin.Deps {
		b.relate(id, spdx.DependsOn, b.module(m, "Module"), "")
	}
	version := clean(bin.GoVersion)
	if version == "" {
		return
	}
	b.relate(id, spdx.DependsOn, b.stdlib(version), "Go standard library")
	compiler := b.add(spdx.Package{
		ID: elementID("Toolchain", version), Name: "go", Version: version, Purpose: spdx.Application, Licence: goLicence,
		PURL: "pkg:generic/go@" + url.QueryEscape(version), Originator: goSupplier, Supplier: goSupplier, Comment: "The Go toolchain as the program names it.",
	})
	b.relate(compiler, spdx.BuildToolOf, id, "")
}

// mainModule adds the main module with the revision it was built from.
func (b *builder) mainModule(m gomod.Module, bin gomod.Binary) string {
	id := b.module(m, mainKind)
	if bin.Revision == "" {
		return id
	}
	p := &b.draft.Packages[b.at[id]]
	p.Source = fmt.Sprintf("built from %s revision %s of %s", clean(bin.System), clean(bin.Revision), clean(bin.Time))
	if bin.Modified == "true" {
		p.Source += ", with changes that were not committed"
	}
	return id
}

// stdlib adds the standard library, which is in every program and in no list of
// modules.
func (b *builder) stdlib(version string) string {
	number := numberOf(version)
	return b.add(spdx.Package{
		ID: elementID("Stdlib", version), Name: "stdlib", Version: number, Purpose: spdx.Library, PURL: gomod.PURL("stdlib", number),
		Licence: goLicence, Originator: goSupplier, Supplier: goSupplier,
	})
}

// The Go distribution has one licence and one supplier.
const (
	goLicence  = "BSD-3-Clause"
	goSupplier = "Organization: Go (https://go.dev)"
)

func numberOf(goVersion string) string {
	number, _, _ := strings.Cut(strings.TrimPrefix(goVersion, "go"), " ")
	return clean(number)
}

// settings returns the sorted settings of the build, one per line.
func settings(bin gomod.Binary) string {
	lines := []string{"Go build information, as read from the program:"}
	for _, s := range bin.Settings {
		lines = append(lines, clean(s))
	}
	return strings.Join(lines, "\n")
}

func (b *builder) distribution(r distro.Release) string {
	if r.ID == "" {
		return ""
	}
	return b.add(spdx.Package{
		ID: elementID("Distribution", r.ID+"@"+r.VersionID), Name: clean(r.ID), Version: clean(r.VersionID),
		Purpose: spdx.OperatingSystem, Comment: clean(r.Name),
	})
}

func (b *builder) installed(p distro.Package, r distro.Release, source string) string {
	out := spdx.Package{
		ID:   elementID("Package", strings.Join([]string{p.Kind, p.Name, p.Version, p.Arch}, "@")),
		Name: clean(p.Name), Version: clean(p.Version), Purpose: spdx.Library, PURL: clean(p.PURL(r)),
		Licence: p.Licence, Source: clean(source), Comment: clean(p.Notes),
	}
	if who := clean(strings.ReplaceAll(p.Maintainer, "\n", " ")); who != "" {
		out.Supplier = "Organization: " + who
	}
	if p.Origin != "" {
		out.Comment = strings.TrimSpace("Built from the source package " + clean(p.Origin) + ". " + out.Comment)
	}
	return b.add(out)
}

// declare sets the licence of a package that has none.
func (b *builder) declare(id, licence string) {
	if p := &b.draft.Packages[b.at[id]]; p.Licence == "" {
		p.Licence = licence
	}
}

// licenceIn returns the licence of a directory, "" if there is none or more
// than one.
func licenceIn(dir string, licences map[string]string) string {
	found := ""
	for name, id := range licences {
		if path.Dir(name) != dir || id == found {
			continue
		}
		if found != "" {
			return ""
		}
		found = id
	}
	return found
}
