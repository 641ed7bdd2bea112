package sbom

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/mod/module"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/document/unpack"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/sbom/gomod"
	"github.com/waybill-release/waybill/pkg/sbom/licence"
)

// Licences declares the licences of the Go modules in documents. The zero value
// finds none. It is not for use by several goroutines.
type Licences struct {
	// Modules is a module cache (a directory in the form of GOMODCACHE) or the
	// files of a module proxy.
	Modules fs.FS
	known   map[module.Version]string
}

// Declare declares the licences of the modules in a document, as recognised from
// their files. Without such a file, or with texts of two licences, none is
// declared, and the document says so. It returns how many it declared.
func (l *Licences) Declare(d *spdx.Draft) (declared int) {
	if l.known == nil {
		l.known = map[module.Version]string{}
	}
	for i := range d.Packages {
		p := &d.Packages[i]
		if p.Sum == "" || p.Licence != "" || !strings.HasPrefix(p.PURL, "pkg:golang/") {
			continue
		}
		m := module.Version{Path: p.Name, Version: p.Version}
		if _, known := l.known[m]; !known && l.Modules != nil {
			l.known[m] = moduleLicence(l.Modules, m)
		}
		if p.Licence = l.known[m]; p.Licence != "" {
			p.Comment, _, _ = strings.Cut("\n"+p.Comment, "\n"+sbomcheck.Unknown)
			p.Comment = strings.TrimSpace(p.Comment + " A file of the module contains the text of this licence.")
			declared++
			stateUnknown(p)
		}
	}
	return declared
}

// moduleLicence looks in the archive of a module, or in its directory.
func moduleLicence(modules fs.FS, m module.Version) string {
	at, err := module.EscapePath(m.Path)
	version, err2 := module.EscapeVersion(m.Version)
	if err != nil || err2 != nil {
		return "" // not a path of a module cache
	}
	f, err := modules.Open(at + "/@v/" + version + ".zip")
	if err != nil {
		return licenceOf(modules, at+"@"+version)
	}
	defer f.Close()
	body, _ := f.(io.ReaderAt)
	info, err := f.Stat()
	if err != nil || body == nil {
		return ""
	}
	archive, err := zip.NewReader(body, info.Size())
	if err != nil {
		return ""
	}
	return licenceOf(archive, m.String())
}

// licenceOf returns the licence recognised from the files of one directory.
func licenceOf(cache fs.FS, dir string) string {
	entries, err := fs.ReadDir(cache, dir)
	if err != nil {
		return ""
	}
	found := map[string]string{}
	for _, e := range entries {
		if !e.Type().IsRegular() || !licence.IsFile(e.Name()) {
			continue
		}
		if id := recognised(cache, path.Join(dir, e.Name())); id != "" {
			found[path.Join(dir, e.Name())] = id
		}
	}
	return licenceIn(dir, found)
}

func recognised(cache fs.FS, name string) string {
	f, err := cache.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, licence.MaxSize+1))
	if err != nil {
		return ""
	}
	return licence.Recognise(text)
}

// errUnread says that a file is a Go program of which some parts cannot be
// read.
var errUnread = errors.New("a Go program whose build information cannot be read")

// readProgram reads the build information of an executable. For anything but a
// Go program it returns [gomod.ErrNoBuildInfo]. For a Go program that cannot be
// read completely it returns errUnread and what could be read: it must not be
// taken for a program without modules.
func readProgram(at io.ReaderAt) (gomod.Binary, error) {
	bin, err := gomod.Read(at)
	switch {
	case errors.Is(err, gomod.ErrNoBuildInfo) && gomod.IsGo(at):
		return gomod.Binary{}, fmt.Errorf("%w: %s", errUnread, err.Error()) // not wrapped: that error says "no Go program"
	case err == nil && bin.Package == "" && bin.Main.Path == "" && len(bin.Deps) == 0:
		return bin, fmt.Errorf("%w: it names a toolchain and no modules", errUnread)
	}
	return bin, err
}

// goProgram reads a file that may be a Go program, and records what cannot be
// read of one. is is false for anything else.
func (x *examiner) goProgram(name string, at io.ReaderAt) (bin gomod.Binary, is bool) {
	bin, err := readProgram(at)
	if err != nil && !errors.Is(err, gomod.ErrNoBuildInfo) {
		x.missed(name, err)
	}
	return bin, bin.GoVersion != ""
}

// headOf reads the beginning of a file, by which its type is recognised.
func headOf(at io.ReaderAt) ([]byte, error) {
	head := make([]byte, unpack.HeadSize)
	n, err := at.ReadAt(head, 0)
	if err == io.EOF {
		err = nil
	}
	return head[:n], err
}
