// Package staging lays out releases as other tools leave them: krel's staging
// bucket of Kubernetes, and GoReleaser's dist. Names and forms are theirs, the
// bytes are few; nothing of it was copied.
//
//	files := staging.Krel("v1.33.5", commit)
//	err := files.Write(dir)
package staging

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Files are the files of a place, by name.
type Files map[string][]byte

// Write writes the files below a directory.
func (f Files) Write(dir string) error {
	for name, body := range f {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(at, body, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Names are the names of the files, sorted.
func (f Files) Names() []string { return slices.Sorted(maps.Keys(f)) }

// sums are the lines of sha256sum or sha512sum over files, without a prefix of
// their names.
func (f Files) sums(names []string, prefix string, long bool) []byte {
	var out strings.Builder
	for _, name := range names {
		fmt.Fprintf(&out, "%s  %s\n", hexOf(f[name], long), strings.TrimPrefix(name, prefix))
	}
	return []byte(out.String())
}

func hexOf(body []byte, long bool) string {
	set := digest.SetOf(body)
	if long {
		return set.SHA512.Hex()
	}
	return set.SHA256.Hex()
}

// Program is a program of a platform, as far as its header says; what names it
// makes its bytes its own.
func Program(platform, name string) []byte {
	goos, arch, _ := strings.Cut(platform, "/")
	head := make([]byte, 128)
	switch goos {
	case "windows":
		copy(head, "MZ")
		head[60] = 64
		copy(head[64:], "PE\x00\x00")
		binary.LittleEndian.PutUint16(head[68:], map[string]uint16{"386": 0x14c, "amd64": 0x8664, "arm64": 0xaa64}[arch])
	case "darwin":
		copy(head, "\xcf\xfa\xed\xfe")
		binary.LittleEndian.PutUint32(head[4:], map[string]uint32{"amd64": 0x01000007, "arm64": 0x0100000c}[arch])
	default:
		copy(head, "\x7fELF\x02\x01\x01")
		machine := map[string]uint16{"386": 3, "s390x": 22, "ppc64le": 21, "arm": 40, "amd64": 62, "arm64": 183}[arch]
		if arch == "s390x" {
			head[5] = 2
			binary.BigEndian.PutUint16(head[18:], machine)
		} else {
			binary.LittleEndian.PutUint16(head[18:], machine)
		}
	}
	return append(head, platform+" "+name...)
}

func encode(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("staging: " + err.Error())
	}
	return raw
}

// object is a JSON object.
type object = map[string]any

// spdxOf is the SBOM of one file, in the form that syft writes.
func spdxOf(file string, body []byte) []byte {
	id := "SPDXRef-DocumentRoot-File-" + strings.ReplaceAll(file, "_", "-")
	return encode(object{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": file,
		"documentNamespace": "https://sbom.example.test/file/" + file,
		"creationInfo":      object{"creators": []string{"Organization: Example", "Tool: example-1.0"}, "created": "2026-01-02T03:04:05Z"},
		"packages": []object{{
			"name": file, "SPDXID": id, "versionInfo": "sha256:" + hexOf(body, false),
			"supplier": "NOASSERTION", "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
			"checksums":        []object{{"algorithm": "SHA256", "checksumValue": hexOf(body, false)}},
			"licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION", "primaryPackagePurpose": "FILE",
		}},
		"relationships": []object{{
			"spdxElementId": "SPDXRef-DOCUMENT", "relatedSpdxElement": id, "relationshipType": "DESCRIBES",
		}},
	})
}
