package sbomcheck

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Checksums requires that every checksum which a document gives for its subject
// is correct, as far as it is known: SHA-512 and SHA-1 in addition to SHA-256.
// [Uncompared] lists the others.
func Checksums(a Artifact) (all []verdict.Finding) {
	other := func(is, said string) {
		all = append(all, verdict.Find(verdict.SBOMSubject, a.Name, "its SBOM gives a wrong checksum").Differ(is, said))
	}
	said, id := described(a.Document)
	if otherThan(said.SHA512, a.Digests.SHA512) {
		other(a.Digests.SHA512.String(), said.SHA512.String())
	}
	for _, c := range a.Document.Checksums() {
		if c.ID == id && c.Algorithm == "SHA1" && a.SHA1 != "" && !strings.EqualFold(c.Value, a.SHA1) {
			other("sha1:"+a.SHA1, "sha1:"+c.Value)
		}
	}
	return all
}

// described returns the digests and the identifier of the subject of a
// document.
func described(doc spdx.Document) (said digest.Set, id string) {
	id = subjectOf(doc.Relationships())
	for _, p := range doc.Packages() {
		if p.ID == id {
			return p.Digests, id
		}
	}
	for _, f := range doc.Files() {
		if f.ID == id {
			return f.Digests, id
		}
	}
	return digest.Set{}, id
}

// SHA1 is the SHA-1 that a document gives for its subject, or "".
func SHA1(doc spdx.Document) string {
	id := subjectOf(doc.Relationships())
	return slice.First(doc.Checksums(), func(c spdx.Checksum) bool { return c.ID == id && c.Algorithm == "SHA1" }).Value
}

// putInto names the artifacts that were copied into an image, whose checksums can
// therefore be compared: see [Put].
const putInto = "artifacts copied into the image"

// Uncompared lists the checksums of a document that are not compared: those of
// other algorithms, and those of packages in the artifact, whose bytes are not
// available.
func Uncompared(a Artifact) (notes []string) {
	said, id := described(a.Document)
	kinds := map[string]int{}
	if !said.SHA512.IsZero() && a.Digests.SHA512.IsZero() {
		kinds["SHA512 of the artifact"]++
	}
	place := map[string]string{id: "the artifact"}
	for _, f := range a.Document.Files() {
		place[f.ID] = "files"
	}
	for _, p := range a.Document.Packages() {
		if p.ID == id {
			continue
		}
		if putIn(a.Document, p) {
			place[p.ID] = putInto
			continue
		}
		if !p.Digests.SHA512.IsZero() {
			kinds["SHA512 of packages"]++
		}
		if !p.Digests.SHA256.IsZero() && !summed(a.Document, p) {
			kinds["SHA256 of packages"]++
		}
	}
	for _, c := range a.Document.Checksums() {
		if c.Algorithm == "SHA1" && (c.ID == id && a.SHA1 != "" || place[c.ID] == putInto) {
			continue
		}
		where := place[c.ID]
		if where == "" {
			where = "packages"
		}
		kinds[c.Algorithm+" of "+where]++
	}
	return slice.Map(slices.Sorted(maps.Keys(kinds)), func(kind string) string { return fmt.Sprintf("the checksums %s: %d", kind, kinds[kind]) })
}

// putIn reports whether a package in one of our documents is an artifact that
// was put into an image: see [Entries].
func putIn(doc spdx.Document, p spdx.Package) bool {
	return Ours(doc) && p.FileName != "" && p.PURL == ""
}

// summed reports whether the SHA-256 of a package is compared: for images and
// layers by [Components], for Go modules of other tools by [Foreign].
func summed(doc spdx.Document, p spdx.Package) bool {
	if Ours(doc) {
		return p.FileName == "" && (p.Purpose == spdx.Container || p.Purpose == spdx.Archive)
	}
	return strings.HasPrefix(p.PURL, golang)
}
