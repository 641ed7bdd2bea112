package sbom

import (
	"io"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/mod/module"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/sbom/licence"
)

// Licences declares the licences of the Go modules in a document, as recognised
// from files in a module cache (a directory in the form of GOMODCACHE). Without
// such a file, or with texts of two licences, none is declared. It returns for
// how many modules a licence is now declared.
func Licences(d *spdx.Draft, cache fs.FS) (declared int) {
	for i := range d.Packages {
		p := &d.Packages[i]
		if p.Sum == "" || p.Licence != "" || !strings.HasPrefix(p.PURL, "pkg:golang/") {
			continue
		}
		at, err := module.EscapePath(p.Name)
		version, err2 := module.EscapeVersion(p.Version)
		if err != nil || err2 != nil {
			continue // not a path of a module cache
		}
		if p.Licence = licenceOf(cache, at+"@"+version); p.Licence != "" {
			p.Comment, _, _ = strings.Cut("\n"+p.Comment, "\n"+sbomcheck.Unknown)
			p.Comment = strings.TrimSpace(p.Comment + " A file of the module contains the text of this licence.")
			declared++
			stateUnknown(p)
		}
	}
	return declared
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
