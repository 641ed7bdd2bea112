package sbomcheck

import (
	"net/url"
	"path"
	"strings"
	"sync"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Named requires that the package URL of a package agrees with its name and
// version. Some scanners read the one and some the other, so a document in
// which they differ says two things. For images this is checked in documents of
// ours only: other tools put other checksums there.
func Named(a Artifact) (all []verdict.Finding) {
	own := Ours(a.Document)
	for p := range a.Document.EachPackage() {
		if name, version, known := parsePURL(p.PURL); known && !says(p, name, version) || own && !saysImage(p) {
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "the package URL of %.200q names another package", nameOf(p)).
				Differ(nameOf(p), p.PURL))
		}
	}
	return all
}

// parsePURL reads name and version from a package URL of a Go module, or of an
// apk or dpkg package. For these types the URL contains the package name.
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

// saysImage reports whether the package URL of an image has the digest of its
// checksum, and the platform in its name. It accepts other URLs.
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

// unescape removes the escapes from a text; if that fails, the result matches
// no package name.
func unescape(text string) string {
	out, err := url.PathUnescape(text)
	if err != nil {
		return "\x00" + text
	}
	return out
}

// says reports whether a package has this name and version, if both sides give
// one. Some tools write package URLs in lower case.
func says(p spdx.Package, name, version string) bool {
	rest, suffixed := strings.CutPrefix(p.Name, name+"-") // some write NAME-VERSION
	if !strings.EqualFold(p.Name, name) && (!suffixed || rest != version && rest != p.Version) {
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

// Examined remembers, for one run of the program, which documents were made
// from which bytes or compared with them successfully. A later step of the same
// run need not unpack an artifact again: it hashes the bytes and asks with the
// digest. The memory is never written to disk, so it cannot be forged.
//
// The zero value is empty, and so is a nil pointer.
type Examined struct {
	mu     sync.Mutex // guards agreed: artifacts are examined concurrently
	agreed map[examination]bool
}

type examination struct {
	name            string
	bytes, document digest.Digest
}

// Agree records that a document describes these bytes correctly.
func (e *Examined) Agree(name string, bytes, document digest.Digest) {
	if e == nil || bytes.IsZero() || document.IsZero() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.agreed == nil {
		e.agreed = map[examination]bool{}
	}
	e.agreed[examination{name, bytes, document}] = true
}

// Agreed reports whether this document was compared with these bytes under this
// name.
func (e *Examined) Agreed(name string, bytes, document digest.Digest) bool {
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.agreed[examination{name, bytes, document}]
}
