// Package spdx writes, parses and checks SPDX 2.3 documents.
//
// A [Draft] is a document to be written; [Encode] turns it into bytes, the same
// bytes for the same draft, and [EncodeTagValue] into the older tag-value form.
// [Parse] parses bytes by any author and returns a [Document], which keeps
// those bytes and cannot encode them again.
//
//	raw, err := spdx.Encode(draft)
//	…
//	doc, err := spdx.Parse(raw)
//	name, sum := doc.Describes()
//	if !sum.Equal(artifact) { /* the document describes other bytes */ }
//
// All refuse a document that could be read in two ways or has broken
// references: two elements with one identifier, a relationship to a missing
// element, an invalid checksum, a reference to an undeclared document, a
// package that contains itself. [Validate] lists every such fault with its
// place, and also faults that only make a document less useful: licences that
// do not parse, a wrong verification code, missing minimum elements. [Compare]
// lists the changes from one document to the next, and [Twins] the differences
// between two forms of one document.
//
// Identifiers are spelled in full, as in the documents: "SPDXRef-Artifact",
// "DocumentRef-lantern:SPDXRef-Artifact".
//
// Specification: The Software Package Data Exchange, version 2.3, with the JSON
// schema of 2.3.1. Writing, and the tag-value form, use
// github.com/spdx/tools-golang, which is not visible in the API. JSON has a
// parser of its own: that library accepts keys in any letter case, misses equal
// identifiers, and takes ten times as long for large documents.
package spdx

import (
	"time"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// The names that the specification defines.
const (
	// Version is the only version that is written and parsed.
	Version = "SPDX-2.3"
	// DocumentID is the identifier of the document itself.
	DocumentID = "SPDXRef-DOCUMENT"
	// NoAssertion means unknown, or not stated.
	NoAssertion = "NOASSERTION"

	version22   = "SPDX-2.2" // accepted by Validate and Compare only
	dataLicense = "CC0-1.0"
	none        = "NONE"
	timeLayout  = "2006-01-02T15:04:05Z"
)

// Relationship types in documents of a release.
const (
	Describes     = "DESCRIBES"
	Contains      = "CONTAINS"
	DependsOn     = "DEPENDS_ON"
	staticLink    = "STATIC_LINK"
	GeneratedFrom = "GENERATED_FROM"
	BuildToolOf   = "BUILD_TOOL_OF"
	CopyOf        = "COPY_OF"
	DescendantOf  = "DESCENDANT_OF"
	// ExpandedFromArchive leads from an archive member to its archive.
	ExpandedFromArchive = "EXPANDED_FROM_ARCHIVE"
	describedBy         = "DESCRIBED_BY"
)

// Purposes of packages.
const (
	Application = "APPLICATION"
	Archive     = "ARCHIVE"
	Container   = "CONTAINER"
	Library     = "LIBRARY"
	Install     = "INSTALL"
	Other       = "OTHER"
	Source      = "SOURCE"
	// OperatingSystem is a distribution that packages belong to.
	OperatingSystem = "OPERATING_SYSTEM"
)

// sumReference is the type of the reference with [Package.Sum]: SPDX has no
// checksum of this kind.
const sumReference = "go-sum"

// MaxSize is the size of the largest document in bytes: some 200,000 files.
const MaxSize = 128 << 20

// Draft is a document to be written. Lists keep their order.
type Draft struct {
	Name string
	// Namespace is the URI by which other documents refer to this one; no two
	// documents share it. It has no fragment.
	Namespace string
	Created   time.Time
	// Tool is the creating program, "NAME-VERSION"; Author is who runs it,
	// "Organization: …" or "Person: …", or "".
	Tool, Author string
	// Context says at which stage the document was made, or "".
	Context       string
	Comment       string
	External      []External
	Packages      []Package
	Files         []File
	Relationships []Relationship
}

// External is another document, by its namespace and digest.
type External struct {
	ID        string // "DocumentRef-…"
	Namespace string
	SHA256    digest.Digest // zero if read with another checksum only
}

// Package is a described thing with a version: an artifact, a module, a layer.
type Package struct {
	ID       string // "SPDXRef-…"
	Name     string
	Version  string
	FileName string
	// Purpose is one of the purposes above, or "".
	Purpose string
	// Download is where the package comes from; "" means NOASSERTION.
	Download string
	// Digests are those of the package as one sequence of bytes.
	Digests digest.Set
	// PURL is the package URL, or "".
	PURL string
	// Sum is the checksum of a Go module as in go.sum, "h1:…", or "".
	Sum string
	// Licence is the declared licence, as an SPDX expression; "" means
	// NOASSERTION, as for Supplier and Originator ("Organization: …").
	Licence, Supplier, Originator string
	// Concluded is the concluded licence, and Identifier a CPE or another
	// identifier than the package URL: both are read, and never written.
	Concluded, Identifier string
	// Source describes where the package was found or what it was built from.
	Source  string
	Comment string
	// Verification is the package verification code over all files of the
	// package, "" if its files were not analyzed.
	Verification string
}

// Checksum is a checksum of a package or file in an algorithm that [digest.Set]
// does not have, as it is written.
type Checksum struct{ ID, Algorithm, Value string }

// File is one file with its digests.
type File struct {
	ID      string // "SPDXRef-…"
	Name    string // relative, begins with "./"
	SHA1    string // forty hex digits, which SPDX requires; proves nothing
	Digests digest.Set
	// Licence is the one that the file states, or whose text it contains; "" is
	// NOASSERTION.
	Licence string
	Comment string
}

// Relationship connects two elements. To may be [NoAssertion].
type Relationship struct {
	From, Type, To string
	Comment        string
}
