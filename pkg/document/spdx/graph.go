package spdx

import (
	"crypto/sha1" // SPDX 2.3 defines the verification code with SHA-1
	"encoding/hex"
	"io"
	"slices"

	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// acyclic refuses elements that contain themselves. Dependencies may be
// circular, but containment may not.
func (c *checker) acyclic() bool {
	inside := c.contained()
	const open, closed = 1, 2
	state := make(map[string]uint8, len(inside))
	type visit struct {
		id   string
		next int
	}
	for start := range inside {
		if state[start] != 0 {
			continue
		}
		state[start] = open
		// Not recursive, because the document determines the depth.
		for path := []visit{{id: start}}; len(path) > 0; {
			top := &path[len(path)-1]
			if top.next == len(inside[top.id]) {
				state[top.id] = closed
				path = path[:len(path)-1]
				continue
			}
			child := inside[top.id][top.next]
			top.next++
			switch state[child] {
			case open:
				c.add(ruleContainment, "relationships", "%s contains itself", quote(child))
				return false
			case 0:
				state[child] = open
				path = append(path, visit{id: child})
			}
		}
	}
	return true
}

// contained lists what each element contains, among the elements of this
// document.
func (c *checker) contained() map[string][]string {
	inside := make(map[string][]string)
	for i := range c.m.relationships {
		r := &c.m.relationships[i]
		from, to := r.From, r.To
		switch r.Type {
		case Contains:
		case "CONTAINED_BY":
			from, to = to, from
		default:
			continue
		}
		if _, own := c.elements[to]; !own {
			continue
		}
		if _, own := c.elements[from]; own {
			inside[from] = append(inside[from], to)
		}
	}
	return inside
}

// rollUps checks section 7.9. The verification code of a package is computed
// over the files that it contains, so an omitted file changes it.
func (c *checker) rollUps() {
	var inside map[string][]string
	for i := range c.m.packages {
		p := &c.m.packages[i]
		if p.Verification == "" || slices.Contains(c.m.excluding, p.ID) {
			continue
		}
		if inside == nil {
			inside = c.contained()
		}
		var files []File
		seen := map[string]bool{}
		for _, id := range inside[p.ID] {
			if e := c.elements[id]; e.kind == aFile && !seen[id] {
				seen[id] = true
				files = append(files, c.m.files[e.index])
			}
		}
		if got := VerificationCode(files); got != p.Verification {
			c.add(ruleFiles, packageAt(i), "the verification code does not match the listed files (%d): want %s, got %s",
				len(files), quote(p.Verification), got)
		}
	}
}

// VerificationCode is the verification code over all files of a package
// (section 7.9): the SHA-1 of their sorted SHA-1 values. It binds nothing; it
// lets other tools notice an omitted file.
func VerificationCode(files []File) string {
	sums := slice.Map(files, func(f File) string { return f.SHA1 })
	slices.Sort(sums)
	h := sha1.New()
	for _, s := range sums {
		_, _ = io.WriteString(h, s)
	}
	return hex.EncodeToString(h.Sum(nil))
}

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
