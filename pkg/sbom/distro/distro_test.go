package distro_test

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/sbom/distro"
)

const apk = `C:Q1abc=
P:musl
V:1.2.5-r0
A:x86_64
L:MIT
o:musl
m:Lantern Authors <lantern@example.org>
F:lib
R:ld-musl.so
Z:Q1def=

P:libwick
V:2.0-r1
A:x86_64
L:MIT BSD custom
o:wick
`

const dpkg = `Package: libc6
Status: install ok installed
Architecture: amd64
Source: glibc (2.36-9)
Version: 2.36-9+deb12u4
Maintainer: Lantern Authors <lantern@example.org>
Description: the C library
 of this system
 .
 Status: is a word of the description

Package: gone
Status: deinstall ok config-files
Version: 1

Package: tzdata
Status: install ok installed
Version: 2024a-0
Architecture: all
`

func TestAPK(t *testing.T) {
	list, err := distro.ParseAPK([]byte(apk))
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v %v", list, err)
	}
	alpine := distro.Release{ID: "alpine", VersionID: "3.20.1"}
	if p := list[0]; p.Licence != "MIT" || p.Origin != "" || p.PURL(alpine) != "pkg:apk/alpine/musl@1.2.5-r0?arch=x86_64&distro=alpine-3.20.1" {
		t.Errorf("%+v %s", p, p.PURL(alpine))
	}
	if p := list[1]; p.Licence != "" || !strings.Contains(p.Notes, "MIT BSD custom") || p.Origin != "wick" {
		t.Errorf("%+v", p)
	}
}

func TestDpkg(t *testing.T) {
	list, err := distro.ParseDpkg([]byte(dpkg))
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v %v", list, err)
	}
	if p := list[0]; p.Name != "libc6" || p.Origin != "glibc@2.36-9" || !strings.HasPrefix(p.PURL(distro.Release{ID: "debian", VersionID: "12"}),
		"pkg:deb/debian/libc6@2.36-9%2Bdeb12u4?arch=amd64&distro=debian-12") {
		t.Errorf("%+v %s", p, p.PURL(distro.Release{ID: "debian", VersionID: "12"}))
	}
	// Distroless: one package to a file, without a status.
	one, err := distro.ParseDpkg([]byte("Package: base-files\nVersion: 12.4\nArchitecture: arm64\n"))
	if err != nil || len(one) != 1 || one[0].PURL(distro.Release{}) != "pkg:deb/base-files@12.4?arch=arm64" {
		t.Errorf("%+v %v", one, err)
	}
}

func TestRefuses(t *testing.T) {
	for name, err := range map[string]error{
		"no name":    second(distro.ParseAPK([]byte("V:1\n"))),
		"no version": second(distro.ParseDpkg([]byte("Package: a\n"))),
		"no field":   second(distro.ParseDpkg([]byte("Package: a\nVersion: 1\nrubbish\n"))),
		"too large":  second(distro.ParseAPK(make([]byte, distro.MaxDatabase+1))),
		"too many":   second(distro.ParseAPK([]byte(strings.Repeat("P:a\nV:1\n\n", 100_001)))),
	} {
		if err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func second(_ []distro.Package, err error) error { return err }

func TestCopyright(t *testing.T) {
	head := "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\n"
	for text, want := range map[string]string{
		head + "Files: *\nLicense: GPL-2+\n text\n\nFiles: doc/*\nLicense: Expat\n": "GPL-2.0-or-later AND MIT",
		head + "Files: *\nLicense: GPL-2 or Artistic\n":                             "(GPL-2.0-only OR Artistic-1.0-Perl)",
		head + "Files: *\nLicense: Expat\n\nFiles: x\nLicense: weird\n":             "",
		"This package is under the GPL.\nLicense: Expat\n":                          "",
	} {
		if got := distro.ParseCopyright([]byte(text)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if distro.CopyrightOf("usr/share/doc/libc6/copyright") != "libc6" || distro.CopyrightOf("usr/share/doc/a/b/copyright") != "" {
		t.Error("the name of a copyright file")
	}
}

func FuzzDatabases(f *testing.F) {
	f.Add([]byte(apk))
	f.Add([]byte(dpkg))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, parse := range []func([]byte) ([]distro.Package, error){distro.ParseAPK, distro.ParseDpkg} {
			list, err := parse(raw)
			for _, p := range list {
				if err == nil && (p.Name == "" || p.Version == "" || strings.ContainsAny(p.PURL(distro.ParseRelease(raw)), " \n")) {
					t.Errorf("%+v", p)
				}
			}
		}
		distro.ParseCopyright(raw)
	})
}
