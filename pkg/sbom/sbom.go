// Package sbom writes the SPDX documents of a release: one for each binary,
// archive and image, one for the source, and one for the release as a whole.
//
// Every document describes exactly one thing, the package SPDXRef-Artifact,
// whose name is the artifact's name in the release and whose SHA-256 is the
// artifact's digest. [Describe] reads the artifact once, and refuses bytes that
// do not match the given digests.
//
//	in := sbom.Input{Name: "lantern", Version: "v0.1.0", Created: commit.Time,
//		Namespace: "https://dl.example.org/lantern/v0.1.0/"}
//	made, err := sbom.Describe(ctx, in, "bin/linux/amd64/lantern", sbom.Content{ReaderAt: file, Size: size}, nil)
//	raw, err := made.Encode()
//
// The same input gives the same bytes, and the namespace of a document follows
// from the artifact's name and digest alone. So documents can refer to each
// other before both are written: an archive's document names the document of
// each artifact that it contains, by address and checksum.
//
// A document lists up to 100,000 files one by one. For a larger artifact it
// lists Go programs, artifacts of the release and licences, and sums up the
// others: their number, and the SHA-256 of their lines of digest and name.
//
// Nothing is guessed. Licences are declared by a package or recognised from a
// licence text, else NOASSERTION. The comment of a package lists what is unknown
// of it, each with the reason. The document lists parts that could not be
// examined, and packages of ecosystems that are not catalogued: see
// [sbomcheck.NotExamined].
package sbom

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Input is common to all documents of one release.
type Input struct {
	// Name and Version are those of the release.
	Name, Version string
	// Created is the time of the commit, so that the document is reproducible.
	Created time.Time
	// Namespace is a URI prefix that belongs to the release; it ends in a
	// slash. Nothing need be published there.
	Namespace string
	// Supplier supplies the artifacts and makes the documents, "NAME (ADDRESS)" or
	// the address of the repository. Tool is the version of Waybill, if not as the
	// build information says.
	Supplier, Tool string
	// During says that the documents are made by the build, not before or after.
	During bool

	strong bool                   // compute the SHA-512 of files too, to compare it
	listed map[digest.Digest]bool // always list these one by one, to compare them
}

// Content is the bytes of a file.
type Content struct {
	io.ReaderAt
	Size int64
	// Digests are the required digests of the bytes; a zero set accepts any
	// bytes, see [Made.Digests].
	Digests digest.Set
}

// Entry is an artifact of the release, for references from another document.
type Entry struct {
	Artifact string
	Digests  digest.Set
	// SBOM is the name of the artifact's own document, and SBOMDigest that of
	// the document's bytes; both zero if it has none.
	SBOM       string
	SBOMDigest digest.Set
}

// Members returns the artifact of the release with the given bytes, if any.
type Members func(sha256 digest.Digest) (Entry, bool)

// Made is a document before it is written.
type Made struct {
	Draft spdx.Draft
	// Digests are those of the bytes that were described.
	Digests digest.Set
	// Incomplete lists the parts that could not be examined, with the reason,
	// as the document does.
	Incomplete []string
}

// Encode writes the document in JSON.
func (m Made) Encode() ([]byte, error) { return spdx.Encode(m.Draft) }

const (
	artifactID = "SPDXRef-Artifact"
)

func (in Input) check(artifact string) error {
	switch {
	case !IsNamespace(in.Namespace):
		return verdict.Refuse(verdict.ConfigParse, artifact,
			"SBOM namespace: want an absolute URI without user, query and fragment that ends in a slash")
	case in.Name == "" || in.Version == "" || in.Created.IsZero() || artifact == "":
		return verdict.Refuse(verdict.ConfigParse, artifact, "an SBOM needs release name, version, time and artifact name")
	}
	return nil
}

// IsNamespace reports whether s can be the namespace prefix of a release: an
// absolute URI without user, query and fragment that ends in a slash.
func IsNamespace(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme != "" && u.User == nil && u.RawQuery == "" && u.Fragment == "" && strings.HasSuffix(s, "/") && !strings.Contains(s, " ")
}

func (in Input) namespace(artifact string, sum digest.Digest) string {
	escaped := (&url.URL{Path: artifact}).EscapedPath()
	return in.Namespace + escaped + "-" + sum.Hex()
}

// draft begins the document of an artifact.
func (in Input) draft(artifact string, bytes digest.Set) *builder {
	b := &builder{in: in, external: map[string]bool{}, once: map[string]bool{}, at: map[string]int{}, identity: bytes, draft: spdx.Draft{
		Name: artifact, Namespace: in.namespace(artifact, bytes.SHA256), Created: in.Created, Tool: in.tool(), Author: in.supplier(),
		Context: "Generation context: Analyzed (after the build).",
		Packages: []spdx.Package{{
			ID: artifactID, Name: artifact, Version: in.Version, FileName: artifact, Digests: bytes, Supplier: in.supplier(),
		}},
	}}
	if in.During {
		b.draft.Context = "Generation context: Build (during the build, of its results)."
	}
	b.relate(spdx.DocumentID, spdx.Describes, artifactID, "")
	return b
}

// builder collects the parts of one document.
type builder struct {
	in       Input
	identity digest.Set
	draft    spdx.Draft
	external map[string]bool // documents already referred to
	once     map[string]bool // elements and relationships already added
	at       map[string]int  // index of each package in the draft
	missing  []string
}

// made returns the document as it is now.
func (b *builder) made() Made {
	for i := range b.draft.Packages {
		stateUnknown(&b.draft.Packages[i])
	}
	return Made{Draft: b.draft, Digests: b.identity, Incomplete: b.missing}
}

func (b *builder) subject() *spdx.Package { return &b.draft.Packages[0] }

// add adds a package, once.
func (b *builder) add(p spdx.Package) string {
	if !b.once[p.ID] {
		b.once[p.ID] = true
		b.at[p.ID] = len(b.draft.Packages)
		b.draft.Packages = append(b.draft.Packages, p)
	}
	return p.ID
}

func (b *builder) relate(from, kind, to, comment string) {
	b.draft.Relationships = append(b.draft.Relationships, spdx.Relationship{From: from, Type: kind, To: to, Comment: comment})
}

// unexamined states what was left out.
func (b *builder) unexamined(parts []string) {
	for _, part := range parts {
		b.missing = append(b.missing, part)
		b.relate(artifactID, spdx.Contains, spdx.NoAssertion, sbomcheck.NotExamined+clean(part))
	}
}

func (b *builder) seen(parts []string) {
	for _, part := range parts {
		b.relate(artifactID, spdx.Contains, spdx.NoAssertion, sbomcheck.SeenOnly+clean(part))
	}
}

// linked returns the identifier of e in its own document, and declares that
// document; "" if it has none or its digest is unknown.
func (b *builder) linked(e Entry) string {
	if e.SBOMDigest.SHA256.IsZero() {
		return ""
	}
	ref := "DocumentRef-" + tag(e.Artifact)
	if !b.external[ref] {
		b.external[ref] = true
		b.draft.External = append(b.draft.External, spdx.External{
			ID: ref, Namespace: b.in.namespace(e.Artifact, e.Digests.SHA256), SHA256: e.SBOMDigest.SHA256,
		})
	}
	return ref + ":" + artifactID
}

// elementID makes an identifier from a kind and any text.
func elementID(kind, text string) string { return "SPDXRef-" + kind + "-" + tag(text) }

// namedID is elementID for elements that differ in more than the readable name.
func namedID(kind, name, text string) string { return "SPDXRef-" + kind + "-" + named(name, text) }

// tag is readable, a valid part of an identifier, and different for different
// text.
func tag(text string) string { return named(text, text) }

func named(name, text string) string {
	const readable = 80
	sum := sha256.Sum256([]byte(text))
	short := []byte(name[max(0, len(name)-readable):])
	for i, c := range short {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '.' {
			short[i] = '-'
		}
	}
	return strings.Trim(string(short), "-") + "-" + hex.EncodeToString(sum[:10])
}

// credentials matches user and password in an address.
var credentials = pattern.Lazy(`://[^/\s@]+@`)

// clean bounds foreign text, and removes what is invisible: control characters,
// direction marks, broken UTF-8. Credentials in addresses are removed as well.
func clean(s string) string {
	const limit = 4096
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
	if strings.Contains(s, "@") {
		s = credentials().ReplaceAllString(s, "://…@")
	}
	return s
}
