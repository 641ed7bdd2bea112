// Package sbom writes the SPDX documents of a release: one for each binary,
// archive and image, and one for the release as a whole.
//
// Every document describes exactly one thing, the package SPDXRef-Artifact,
// whose name is the artifact's name in the release and whose SHA-256 is the
// artifact's digest. [Binary] and [Archive] read the artifact and refuse to
// describe bytes other than those they were told of.
//
//	in := sbom.Input{Name: "lantern", Version: "v0.1.0", Created: commit.Time,
//		Namespace: "https://dl.example.org/lantern/v0.1.0/"}
//	raw, err := sbom.Binary(in, "bin/linux/amd64/lantern", file, digests, size)
//
// The same input gives the same bytes, and the namespace of a document follows
// from the artifact's name and digest alone. So documents can refer to each
// other before both are written: an archive's document names the document of
// each artifact that it packs, by address and checksum.
//
// Nothing is guessed. Licences are NOASSERTION; where the contents of an
// artifact are not known, its document says so.
package sbom

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/spdx"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// Input is what all documents of one release have in common.
type Input struct {
	// Name and Version are those of the release.
	Name, Version string
	// Created is the time of the commit: a document made again is the same.
	Created time.Time
	// Namespace is the address under which the release owns every name; it
	// ends in a slash. No document need be there.
	Namespace string
}

// Entry is an artifact of the release as another document sees it.
type Entry struct {
	Artifact string
	Digests  digest.Set
	// SBOM is the name of the artifact's own document, and SBOMDigest that of
	// the document's bytes; both zero if it has none.
	SBOM       string
	SBOMDigest digest.Set
}

const (
	tool       = "waybill"
	artifactID = "SPDXRef-Artifact"
)

func (in Input) check(artifact string, bytes digest.Set) error {
	u, err := url.Parse(in.Namespace)
	switch {
	case err != nil || u.Scheme == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		!strings.HasSuffix(in.Namespace, "/"):
		return verdict.Refuse(verdict.ConfigParse, artifact,
			"SBOM namespace: want an absolute URI without user, query and fragment that ends in a slash")
	case in.Name == "" || in.Version == "" || in.Created.IsZero() || artifact == "":
		return verdict.Refuse(verdict.ConfigParse, artifact, "an SBOM needs release name, version, time and artifact name")
	case bytes.SHA256.IsZero():
		return verdict.Refuse(verdict.SBOMSubject, artifact, "no digest to describe")
	}
	return nil
}

// namespace is the one address of the document of an artifact.
func (in Input) namespace(artifact string, sum digest.Digest) string {
	escaped := (&url.URL{Path: artifact}).EscapedPath()
	return in.Namespace + escaped + "-" + sum.Hex()
}

// draft begins the document of an artifact.
func (in Input) draft(artifact string, bytes digest.Set) *builder {
	b := &builder{in: in, external: map[string]bool{}, draft: spdx.Draft{
		Name: artifact, Namespace: in.namespace(artifact, bytes.SHA256), Created: in.Created, Tool: tool,
		Packages: []spdx.Package{{
			ID: artifactID, Name: artifact, Version: in.Version, FileName: artifact, Digests: bytes,
		}},
	}}
	b.relate(spdx.DocumentID, spdx.Describes, artifactID, "")
	return b
}

// builder collects the parts of one document.
type builder struct {
	in       Input
	draft    spdx.Draft
	external map[string]bool // documents already referred to
}

// subject is the described package.
func (b *builder) subject() *spdx.Package { return &b.draft.Packages[0] }

func (b *builder) add(p spdx.Package) string {
	b.draft.Packages = append(b.draft.Packages, p)
	return p.ID
}

func (b *builder) relate(from, kind, to, comment string) {
	b.draft.Relationships = append(b.draft.Relationships, spdx.Relationship{From: from, Type: kind, To: to, Comment: comment})
}

// linked returns the identifier of e in its own document, declaring that
// document; "" if it has none or its bytes are not known.
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

// tag is readable, within the grammar of identifiers, and different for
// different text.
func tag(text string) string {
	const readable = 80
	sum := sha256.Sum256([]byte(text))
	short := []byte(text[max(0, len(text)-readable):])
	for i, c := range short {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '.' {
			short[i] = '-'
		}
	}
	return strings.Trim(string(short), "-") + "-" + hex.EncodeToString(sum[:10])
}
