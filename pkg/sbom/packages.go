package sbom

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/document/unpack"
	"github.com/waybill-release/waybill/pkg/sbom/distro"
	"github.com/waybill-release/waybill/pkg/sbom/gomod"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Packages describes a directory by its packages alone: the modules of Go
// programs and source trees, and the packages of a distribution. Files are not
// hashed or listed, and archives are not opened; the document says so. It is
// for a quick overview; releases are described completely.
func Packages(in Input, artifact string, dir fs.FS) (Made, error) {
	if err := in.check(artifact); err != nil {
		return Made{}, err
	}
	p := &packages{dir: dir, x: newExaminer(), programs: map[string]gomod.Binary{}}
	if err := fs.WalkDir(dir, ".", p.visit); err != nil {
		return Made{}, wrapDirectory(artifact, err)
	}
	if p.files == 0 {
		return Made{}, verdict.Refuse(verdict.NoSBOM, artifact, "the directory holds no files").Advise("name a file, or a directory that holds files")
	}
	b := in.draft(artifact, digest.Set{SHA256: digest.Of(digest.SHA256, []byte(p.roll.String()))})
	b.subject().Digests, b.subject().FileName = digest.Set{}, ""
	b.subject().Purpose, b.draft.Context = spdx.Source, beforeBuild
	b.subject().Comment = fmt.Sprintf("The packages of a directory of %d files.", p.files)
	for _, name := range slices.Sorted(maps.Keys(p.programs)) {
		id := b.add(spdx.Package{
			ID: elementID("Program", name), Name: clean(name), Version: b.in.Version, FileName: "./" + clean(name), Purpose: spdx.Application,
			Comment: settings(p.programs[name]),
		})
		b.relate(artifactID, spdx.Contains, id, "")
		b.program(id, p.programs[name], "")
	}
	if err := b.sources(p.x, map[string]string{}); err != nil {
		return Made{}, err
	}
	b.installedIn(p.x)
	b.seen(p.x.seen.all())
	b.unexamined(append(p.x.unexamined(), "files: only packages were asked for; no file is hashed or listed, and no archive was opened"))
	return b.made(), nil
}

type packages struct {
	dir      fs.FS
	x        *examiner
	programs map[string]gomod.Binary
	files    int
	roll     strings.Builder // hash of names and sizes, for the namespace
}

func (p *packages) visit(name string, e fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return err
	case e.IsDir() && isRepository(p.dir, name):
		p.x.seen.add("version control", name)
		return fs.SkipDir
	case !e.Type().IsRegular():
		return nil
	}
	if p.files++; p.files > unpack.MaxEntries {
		return verdict.Refuse(verdict.Limit, "", "more than %d files", unpack.MaxEntries)
	}
	if _, err := unpack.CleanName(name); err != nil {
		return err
	}
	f, err := p.dir.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	fmt.Fprintf(&p.roll, "%d %s\n", info.Size(), name)
	return p.look(name, f)
}

// look extracts what there is to know from a file.
func (p *packages) look(name string, f fs.File) error {
	p.x.seen.note(name)
	if isText(name) {
		return p.x.keep(&item{name: name}, f)
	}
	at, ok := f.(io.ReaderAt)
	if !ok {
		return verdict.Refuse(verdict.FileType, name, "the file has no random access")
	}
	head, err := headOf(at)
	if err != nil || !isProgram(head) {
		return err
	}
	if bin, is := p.x.goProgram(name, at); is {
		p.programs[name] = bin
		fmt.Fprintln(&p.roll, bin.Main, bin.Deps)
	}
	return nil
}

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

func (f *facts) faults() []string {
	return slice.Map(slices.Sorted(maps.Keys(f.bad)), func(name string) string { return name + ": " + f.bad[name].Error() })
}
