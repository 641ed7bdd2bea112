package sbom

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/document/unpack"
	"github.com/waybill-release/waybill/pkg/sbom/distro"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Directory describes a directory as [Archive] describes an archive: every
// file, the modules of the source trees in it, Go programs, and the packages of
// a distribution if it is a root file system. Version control data (the .git of
// a repository) is omitted, and the document says so.
//
// A directory has no digest: the described package has no checksum, and its
// namespace is derived from the names and digests of all files.
func Directory(in Input, artifact string, dir fs.FS, members Members) (Made, error) {
	if err := in.check(artifact); err != nil {
		return Made{}, err
	}
	l := newListing()
	l.x.strong, l.x.sum.members, l.x.sum.also = in.strong, members, in.listed
	defer l.x.spool.close()
	err := fs.WalkDir(dir, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return l.directory(dir, name, e)
	})
	if err != nil {
		return Made{}, wrapDirectory(artifact, err)
	}
	if l.files == 0 {
		return Made{}, verdict.Refuse(verdict.NoSBOM, artifact, "the directory holds no files").Advise("name a file, or a directory that holds files")
	}
	var roll strings.Builder
	for _, name := range slices.Sorted(maps.Keys(l.items)) {
		fmt.Fprintf(&roll, "%s %s\n", l.items[name].file.Digests.SHA256, name)
	}
	roll.WriteString(l.x.sum.comment())
	identity := digest.Set{SHA256: digest.Of(digest.SHA256, []byte(roll.String()))}
	b := in.draft(artifact, identity)
	b.subject().Digests, b.subject().FileName = digest.Set{}, ""
	b.subject().Purpose, b.draft.Context = spdx.Source, beforeBuild
	b.subject().Comment = l.comment("A directory")
	if err := b.listing(l, members); err != nil {
		return Made{}, wrapDirectory(artifact, err)
	}
	return b.made(), nil
}

// wrapDirectory is [wrapArchive] for a directory: a file that cannot be read
// now may be readable later.
func wrapDirectory(artifact string, err error) error {
	if refusal := refusedIn(artifact, err); refusal != nil {
		return refusal
	}
	return fmt.Errorf("describing directory %q: %w", artifact, err)
}

func (l *listing) directory(dir fs.FS, name string, e fs.DirEntry) error {
	switch {
	case name == ".":
		return nil
	case e.IsDir() && isRepository(dir, name):
		l.x.seen.add("version control", name)
		return fs.SkipDir
	case e.IsDir():
		l.directories++
		return nil
	}
	if _, err := unpack.CleanName(name); err != nil {
		return err
	}
	if l.files+l.linked >= unpack.MaxEntries {
		return verdict.Refuse(verdict.Limit, "", "more than %d files", unpack.MaxEntries)
	}
	switch kind := e.Type(); {
	case kind&fs.ModeSymlink != 0:
		target, err := fs.ReadLink(dir, name)
		if err != nil {
			return err
		}
		l.link(name, target)
		return nil
	case !kind.IsRegular():
		return verdict.Refuse(verdict.FileType, name, "neither a file, a directory nor a link")
	}
	f, err := dir.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	it, err := l.x.file(name, f)
	if err != nil {
		return fmt.Errorf("reading %q: %w", name, err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("reading %q: %w", name, errors.Join(err, fs.ErrInvalid))
	}
	return l.list(it)
}

// maxHead bounds the HEAD file of a repository.
const maxHead = 4096

// isRepository reports whether a directory is a git directory. Its name alone
// does not decide: any directory may be called .git.
func isRepository(dir fs.FS, name string) bool {
	if path.Base(name) != ".git" {
		return false
	}
	for _, part := range []string{"objects", "refs"} {
		if info, err := fs.Lstat(dir, name+"/"+part); err != nil || !info.IsDir() {
			return false
		}
	}
	info, err := fs.Lstat(dir, name+"/HEAD")
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxHead {
		return false
	}
	raw, err := fs.ReadFile(dir, name+"/HEAD")
	head := strings.TrimSpace(string(raw))
	return err == nil && (strings.HasPrefix(head, "ref: refs/") || commitID().MatchString(head))
}

// commitID matches HEAD if no branch is checked out.
var commitID = pattern.Lazy(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

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
