package sbomcheck

import (
	"net/url"
	"path"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Named demands that the package URL of a package names what its name and
// version do. One scanner reads the one and another the other: where they
// disagree, a document says two things. Those of images are looked at in
// documents of our own only: other tools give the checksum of other bytes.
func Named(a Artifact) (all []verdict.Finding) {
	own := Ours(a.Document)
	for p := range a.Document.EachPackage() {
		if name, version, known := parsePURL(p.PURL); known && !says(p, name, version) || own && !saysImage(p) {
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "the package URL of %.200q names something else", nameOf(p)).
				Differ(nameOf(p), p.PURL))
		}
	}
	return all
}

// parsePURL reads name and version from a package URL of a type whose names
// are those of packages: Go modules, and packages of apk and dpkg.
func parsePURL(purl string) (name, version string, known bool) {
	rest, found := strings.CutPrefix(purl, "pkg:")
	kind, rest, split := strings.Cut(rest, "/")
	if kind = strings.ToLower(kind); !found || !split || kind != "golang" && kind != "apk" && kind != "deb" {
		return "", "", false
	}
	rest, _, _ = strings.Cut(rest, "#")
	rest, _, _ = strings.Cut(rest, "?")
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest, version = rest[:i], unescape(rest[i+1:])
	}
	if name = unescape(rest); kind != "golang" {
		name = path.Base(name)
	}
	return name, version, true
}

// saysImage reports whether the package URL of an image gives the digest that
// its checksum gives, and the platform that is in its name. Others it passes.
func saysImage(p spdx.Package) bool {
	rest, found := strings.CutPrefix(p.PURL, "pkg:oci/")
	if !found {
		return true
	}
	rest, _, _ = strings.Cut(rest, "?")
	_, version, _ := strings.Cut(rest, "@")
	if sum, err := digest.Parse(unescape(version)); err != nil || !sum.Equal(p.Digests.SHA256) {
		return false
	}
	platform := qualifier(p.PURL, "os") + "/" + qualifier(p.PURL, "arch")
	return platform == "/" || strings.HasSuffix(p.Name, "/"+platform)
}

// unescape is text without its escapes; what can not be unescaped equals
// nothing that a package is called.
func unescape(text string) string {
	out, err := url.PathUnescape(text)
	if err != nil {
		return "\x00" + text
	}
	return out
}

// says reports whether a package has a name and a version, as far as both
// sides give one. Package URLs are written in lower case by some.
func says(p spdx.Package, name, version string) bool {
	if !strings.EqualFold(p.Name, name) {
		return false
	}
	own := p.Version
	if own == spdx.NoAssertion {
		own = ""
	}
	bare := func(v string) string {
		if name == "stdlib" {
			v = strings.TrimPrefix(v, "go")
		}
		return strings.TrimPrefix(v, "v")
	}
	return own == "" || version == "" || bare(own) == bare(version)
}
