// Package distro reads the lists of packages that Linux distributions keep in
// images: the database of apk, that of dpkg, and the status.d files of
// distroless images, which have no dpkg.
//
// The lists are claims of the maker of the image; they are bounded, and not
// trusted.
//
// Other projects should not import this package: it changes without notice.
package distro

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The paths of the databases, relative to the root of an image.
const (
	APKDatabase   = "lib/apk/db/installed"
	APKDatabase2  = "usr/lib/apk/db/installed"
	DpkgDatabase  = "var/lib/dpkg/status"
	DpkgStatusDir = "var/lib/dpkg/status.d/"
	OSRelease     = "etc/os-release"
	OSRelease2    = "usr/lib/os-release"
)

// The limits of one database.
const (
	// MaxDatabase bounds its size in bytes.
	MaxDatabase = 64 << 20
	maxPackages = 100_000
	maxField    = 64 << 10
)

// Package is one package that a database lists as installed.
type Package struct {
	// Kind is "apk" or "deb".
	Kind                       string
	Name, Version, Arch        string
	Origin                     string // the source package, "" if it is the same
	Maintainer, Licence, Notes string
}

// Release names the distribution of an image.
type Release struct{ ID, VersionID, Name string }

// PURL returns the package URL of the package in a distribution. If the
// distribution is unknown it is left out, not guessed.
func (p Package) PURL(r Release) string {
	purl := "pkg:" + p.Kind + "/"
	if r.ID != "" {
		purl += url.PathEscape(strings.ToLower(r.ID)) + "/"
	}
	purl += url.QueryEscape(p.Name) + "@" + url.QueryEscape(p.Version)
	var more []string
	if p.Arch != "" {
		more = append(more, "arch="+url.QueryEscape(p.Arch))
	}
	if r.ID != "" && r.VersionID != "" {
		more = append(more, "distro="+url.QueryEscape(r.ID+"-"+r.VersionID))
	}
	if p.Origin != "" {
		more = append(more, "upstream="+url.QueryEscape(p.Origin))
	}
	if len(more) == 0 {
		return purl
	}
	return purl + "?" + strings.Join(more, "&")
}

// stanza is one paragraph of a database: its fields, and its first line.
type stanza struct {
	fields map[string]string
	line   int
}

// stanzas splits a text into paragraphs and their fields. Continuation lines
// are joined to their field.
func stanzas(raw []byte, separator string) ([]stanza, error) {
	if len(raw) > MaxDatabase {
		return nil, verdict.Refuse(verdict.Limit, "", "a database of %d bytes, the limit is %d", len(raw), MaxDatabase)
	}
	var list []stanza
	current := stanza{fields: map[string]string{}}
	last, n := "", 0
	flush := func() error {
		if len(current.fields) > 0 {
			list = append(list, current)
		}
		current, last = stanza{fields: map[string]string{}, line: n + 1}, ""
		if len(list) > maxPackages {
			return verdict.Refuse(verdict.Limit, "", "a database of more than %d packages", maxPackages)
		}
		return nil
	}
	for line := range strings.Lines(string(raw)) {
		n++
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.TrimSpace(line) == "":
			if err := flush(); err != nil {
				return nil, err
			}
		case separator == ": " && (line[0] == ' ' || line[0] == '\t'):
			if last != "" && len(current.fields[last]) < maxField {
				current.fields[last] += "\n" + strings.TrimSpace(line)
			}
		default:
			name, value, found := strings.Cut(line, strings.TrimSpace(separator))
			if !found {
				return nil, fmt.Errorf("line %d of the database is not a field", n)
			}
			last = name
			// apk repeats field names for files; the first of each belongs to
			// the package.
			if _, there := current.fields[name]; !there {
				current.fields[name] = strings.TrimSpace(value[:min(len(value), maxField)])
			}
		}
	}
	return list, flush()
}

// ParseAPK reads the database of apk.
func ParseAPK(raw []byte) (list []Package, err error) {
	paragraphs, err := stanzas(raw, ":")
	if err != nil {
		return nil, err
	}
	for _, s := range paragraphs {
		f := s.fields
		if f["P"] == "" || f["V"] == "" {
			return nil, fmt.Errorf("the package at line %d of the database has no name or no version", s.line)
		}
		p := Package{Kind: "apk", Name: f["P"], Version: f["V"], Arch: f["A"], Maintainer: f["m"]}
		if f["o"] != p.Name {
			p.Origin = f["o"]
		}
		p.Licence, p.Notes = declared(f["L"])
		list = append(list, p)
	}
	return list, nil
}

// declared returns the licence that the package declares, if it is an
// expression; otherwise the comment quotes it.
func declared(licence string) (expression, note string) {
	switch {
	case licence == "":
		return "", ""
	case spdx.IsLicence(licence):
		return licence, ""
	}
	return "", "Declares the licence " + fmt.Sprintf("%.200q", licence) + ", which is not an SPDX expression."
}

// ParseDpkg reads the database of dpkg, or one file of status.d. Removed
// packages of which only configuration remains are not part of the image.
func ParseDpkg(raw []byte) (list []Package, err error) {
	paragraphs, err := stanzas(raw, ": ")
	if err != nil {
		return nil, err
	}
	for _, s := range paragraphs {
		f := s.fields
		// Files of status.d have no status field: all are installed.
		if status := strings.Fields(f["Status"]); len(status) == 3 && status[2] != "installed" {
			continue
		}
		if f["Package"] == "" || f["Version"] == "" {
			return nil, fmt.Errorf("the package at line %d of the database has no name or no version", s.line)
		}
		p := Package{Kind: "deb", Name: f["Package"], Version: f["Version"], Arch: f["Architecture"], Maintainer: f["Maintainer"]}
		// "Source: name (version)"; the version only if it differs.
		name, version, differs := strings.Cut(strings.TrimSuffix(f["Source"], ")"), " (")
		if p.Origin = name; differs {
			p.Origin += "@" + version
		} else if name == p.Name {
			p.Origin = ""
		}
		list = append(list, p)
	}
	return list, nil
}

// ParseRelease reads os-release.
func ParseRelease(raw []byte) (r Release) {
	for line := range strings.Lines(string(raw)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.Trim(value, `"'`)
		if len(value) > 200 {
			continue
		}
		switch key {
		case "ID":
			r.ID = value
		case "VERSION_ID":
			r.VersionID = value
		case "PRETTY_NAME":
			r.Name = value
		}
	}
	return r
}

// CopyrightOf returns the package that a file of /usr/share/doc belongs to, or
// "".
func CopyrightOf(path string) string {
	rest, found := strings.CutPrefix(path, "usr/share/doc/")
	name, file, split := strings.Cut(rest, "/")
	if !found || !split || file != "copyright" {
		return ""
	}
	return name
}

// ParseCopyright reads the licences that a Debian copyright file declares in
// its machine-readable form, joined by AND; "" if there are none, or if one of
// them has no known SPDX name.
func ParseCopyright(raw []byte) string {
	if !strings.Contains(string(raw[:min(len(raw), 1024)]), "copyright-format/1.0") {
		return ""
	}
	paragraphs, err := stanzas(raw, ": ")
	if err != nil {
		return ""
	}
	var all []string
	for _, s := range paragraphs {
		name, _, _ := strings.Cut(s.fields["License"], "\n")
		if name == "" {
			continue
		}
		expression := debianLicence(name)
		if expression == "" {
			return ""
		}
		if !slices.Contains(all, expression) {
			all = append(all, expression)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " AND ")
}

// debianNames maps short names of the copyright format to those of SPDX, where
// they differ.
var debianNames = map[string]string{
	"Expat": "MIT", "MIT": "MIT", "ISC": "ISC", "Apache-2.0": "Apache-2.0", "Apache-2": "Apache-2.0", "Zlib": "Zlib", "zlib": "Zlib",
	"BSD-2-clause": "BSD-2-Clause", "BSD-3-clause": "BSD-3-Clause", "BSD-4-clause": "BSD-4-Clause", "MPL-2.0": "MPL-2.0",
	"GPL-1": "GPL-1.0-only", "GPL-1+": "GPL-1.0-or-later", "GPL-2": "GPL-2.0-only", "GPL-2+": "GPL-2.0-or-later",
	"GPL-2.0": "GPL-2.0-only", "GPL-2.0+": "GPL-2.0-or-later", "GPL-3.0": "GPL-3.0-only", "GPL-3.0+": "GPL-3.0-or-later",
	"GPL-3": "GPL-3.0-only", "GPL-3+": "GPL-3.0-or-later", "LGPL-2": "LGPL-2.0-only", "LGPL-2+": "LGPL-2.0-or-later",
	"LGPL-2.1": "LGPL-2.1-only", "LGPL-2.1+": "LGPL-2.1-or-later", "LGPL-3": "LGPL-3.0-only", "LGPL-3+": "LGPL-3.0-or-later",
	"Artistic": "Artistic-1.0-Perl", "CC0-1.0": "CC0-1.0", "CC0": "CC0-1.0",
}

// debianLicence turns "GPL-2+ or Expat" into an SPDX expression, or "".
func debianLicence(name string) string {
	var out []string
	for _, w := range strings.Fields(name) {
		switch {
		case w == "and" || w == "or":
			out = append(out, strings.ToUpper(w))
		case debianNames[w] != "":
			out = append(out, debianNames[w])
		default:
			return ""
		}
	}
	expression := strings.Join(out, " ")
	if !spdx.IsLicence(expression) {
		return ""
	}
	if len(out) > 1 {
		return "(" + expression + ")"
	}
	return expression
}
