package spdx

import "github.com/waybill-release/waybill/pkg/value/digest"

// model is the content of a document in any form. Elements keep the order of
// the document.
type model struct {
	version, licence, id, name, namespace string
	comment, created, context             string
	creators                              []string
	externals                             []External
	packages                              []Package
	files                                 []File
	snippets                              []string // identifiers of packages
	licences                              []string // LicenseRef-… that the document explains
	relationships                         []Relationship
	excluding                             []string // packages with files that are not in the verification code
	about                                 described
	weak                                  []Checksum
	least                                 faults // minimum elements that are missing
}

// described is the subject of a document.
type described struct {
	name, version string
	sha256        digest.Digest
	count         int // number of described things, at most 2
}

// sum is a checksum as it was written.
type sum struct{ algorithm, value string }

// algorithms maps the checksums of SPDX 2.3 to their number of hex digits; 0
// for any length.
var algorithms = map[string]int{
	"SHA1": 40, "SHA224": 56, "SHA256": 64, "SHA384": 96, "SHA512": 128,
	"SHA3-256": 64, "SHA3-384": 96, "SHA3-512": 128,
	"BLAKE2b-256": 64, "BLAKE2b-384": 96, "BLAKE2b-512": 128, "BLAKE3": 0,
	"MD2": 32, "MD4": 32, "MD5": 32, "MD6": 0, "ADLER32": 8,
}

// The lists of values in the schema.
var (
	purposes = []string{ // section 7.24 has OPERATING-SYSTEM, and the schema an underscore
		Application, "FRAMEWORK", Library, Container, OperatingSystem, "OPERATING-SYSTEM", "DEVICE", "FIRMWARE", Source, Archive, "FILE", Install, Other,
	}
	categories = []string{"OTHER", "PERSISTENT-ID", "PERSISTENT_ID", "SECURITY", "PACKAGE-MANAGER", "PACKAGE_MANAGER"}
	fileKinds  = []string{
		"APPLICATION", "ARCHIVE", "AUDIO", "BINARY", "DOCUMENTATION", "IMAGE", "OTHER", "SOURCE", "SPDX", "TEXT", "VIDEO",
	}
	annotationKinds   = []string{"OTHER", "REVIEW"}
	relationshipKinds = []string{
		"AMENDS", "ANCESTOR_OF", "BUILD_DEPENDENCY_OF", BuildToolOf, "CONTAINED_BY", Contains, CopyOf, "DATA_FILE_OF",
		"DEPENDENCY_MANIFEST_OF", "DEPENDENCY_OF", DependsOn, DescendantOf, Describes, describedBy, "DEV_DEPENDENCY_OF",
		"DEV_TOOL_OF", "DISTRIBUTION_ARTIFACT", "DOCUMENTATION_OF", "DYNAMIC_LINK", "EXAMPLE_OF", ExpandedFromArchive,
		"FILE_ADDED", "FILE_DELETED", "FILE_MODIFIED", GeneratedFrom, "GENERATES", "HAS_PREREQUISITE", "METAFILE_OF",
		"OPTIONAL_COMPONENT_OF", "OPTIONAL_DEPENDENCY_OF", "OTHER", "PACKAGE_OF", "PATCH_APPLIED", "PATCH_FOR",
		"PREREQUISITE_FOR", "PROVIDED_DEPENDENCY_OF", "REQUIREMENT_DESCRIPTION_FOR", "RUNTIME_DEPENDENCY_OF",
		"SPECIFICATION_FOR", staticLink, "TEST_CASE_OF", "TEST_DEPENDENCY_OF", "TEST_OF", "TEST_TOOL_OF", "VARIANT_OF",
	}
)
