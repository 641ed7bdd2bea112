// Package spdx writes, reads and judges SPDX 2.3 documents.
//
// A [Draft] is what a producer wants to say; [Encode] turns it into bytes, the
// same bytes for the same draft, and [EncodeTagValue] into the older form of
// lines. [Parse] reads bytes that anybody may have written and returns a
// [Document], which keeps those bytes and has no way to encode them again.
//
//	raw, err := spdx.Encode(draft)
//	…
//	doc, err := spdx.Parse(raw)
//	name, sum := doc.Describes()
//	if !sum.Equal(artifact) { /* the document speaks of other bytes */ }
//
// All refuse a document that could be read in two ways or leads nowhere: two
// elements of one identifier, a relationship to an element that is not there,
// a checksum that is none, a reference to a document that is not declared, a
// package that contains itself. [Validate] lists every such fault with its
// place, and those that only make a document poor: licences that do not parse,
// a roll-up of other files, minimum elements that are missing. [Compare] lists
// what changed from one document to the next, [Twins] where two forms of one
// document disagree.
//
// Identifiers are spelled in full, as in the documents: "SPDXRef-Artifact",
// "DocumentRef-lantern:SPDXRef-Artifact".
//
// Specification: The Software Package Data Exchange, version 2.3, with the JSON
// schema of 2.3.1. Writing and the form of lines are those of
// github.com/spdx/tools-golang, which never shows through. JSON is read by a
// scanner of our own: that library takes keys in any letter case, misses equal
// identifiers, and takes ten times as long for large documents.
package spdx

import (
	"time"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// The names that the specification gives.
const (
	// Version is the one version that is written and read.
	Version = "SPDX-2.3"
	// DocumentID is the identifier of the document itself.
	DocumentID = "SPDXRef-DOCUMENT"
	// NoAssertion says that nothing is known, or nothing is said.
	NoAssertion = "NOASSERTION"

	version22   = "SPDX-2.2" // read by Validate and Compare only
	dataLicense = "CC0-1.0"
	none        = "NONE"
	timeLayout  = "2006-01-02T15:04:05Z"
)

// Relationship types that documents of a release use.
const (
	Describes     = "DESCRIBES"
	Contains      = "CONTAINS"
	DependsOn     = "DEPENDS_ON"
	StaticLink    = "STATIC_LINK"
	GeneratedFrom = "GENERATED_FROM"
	BuildToolOf   = "BUILD_TOOL_OF"
	CopyOf        = "COPY_OF"
	DescendantOf  = "DESCENDANT_OF"
	// ExpandedFromArchive leads from what was inside to the archive it was in.
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

// sumReference is the type of the reference that carries [Package.Sum]: SPDX
// has no checksum of this kind.
const sumReference = "go-sum"

// MaxSize is the largest document in bytes: some 200,000 files.
const MaxSize = 128 << 20

// Draft is a document to be written. Lists keep their order.
type Draft struct {
	Name string
	// Namespace is the URI by which other documents refer to this one; no two
	// documents share it. It has no fragment.
	Namespace string
	Created   time.Time
	// Tool is the name of the program that speaks.
	Tool          string
	Comment       string
	External      []External
	Packages      []Package
	Files         []File
	Relationships []Relationship
}

// External is another document, by the address it gives itself and by its
// bytes.
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
	// Download is where the package comes from; "" stands for NOASSERTION.
	Download string
	// Digests are those of the package as one sequence of bytes.
	Digests digest.Set
	// PURL names the package to other tools, or is "".
	PURL string
	// Sum is the checksum of a Go module as go.sum has it, "h1:…", or "".
	Sum string
	// Licence is what the package declares, as an SPDX expression; "" stands
	// for NOASSERTION, as it does for Supplier ("Organization: …").
	Licence, Supplier string
	// Source says in words where the package was found or built from.
	Source  string
	Comment string
	// Verification is the package verification code over all files of the
	// package, "" if its files were not looked at.
	Verification string
}

// Checksum is one that a document gives of a package or file in another
// algorithm than those of [digest.Set], as it is written.
type Checksum struct{ ID, Algorithm, Value string }

// File is one file with its bytes.
type File struct {
	ID      string // "SPDXRef-…"
	Name    string // relative, begins with "./"
	SHA1    string // forty hex digits, which SPDX requires; proves nothing
	Digests digest.Set
	// Licence is what the file says or is the text of; "" is NOASSERTION.
	Licence string
	Comment string
}

// Relationship says how two elements stand to each other. To may be
// [NoAssertion].
type Relationship struct {
	From, Type, To string
	Comment        string
}
