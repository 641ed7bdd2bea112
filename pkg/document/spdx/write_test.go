package spdx_test

import (
	"bytes"
	"strings"
	"testing"

	spdxjson "github.com/spdx/tools-golang/json"

	"github.com/waybill-release/waybill/pkg/document/spdx"
)

// TestWritesAsTheLibrary reads what we write with the library and has it write
// the same once more.
func TestWritesAsTheLibrary(t *testing.T) {
	odd := draft()
	odd.Comment = "tab\t, line\n, bell\a, quote\", backslash\\, <&>, separator\u2028, µ"
	odd.Packages[1].Comment, odd.Packages[1].Source = odd.Comment, "found in «etc»"
	odd.Packages[1].Licence, odd.Packages[1].Supplier = "MIT", "Organization: The Lantern Authors"
	odd.Packages[1].Sum, odd.Packages[1].Version = "h1:wick=", ""
	odd.Files[0].Licence, odd.Files[0].Comment = "Apache-2.0", "the same <bytes>"
	bare := draft()
	bare.External, bare.Files, bare.Relationships, bare.Comment = nil, nil, bare.Relationships[:1], ""
	bare.Packages = bare.Packages[:1]
	bare.Packages[0].Verification = ""
	for name, d := range map[string]spdx.Draft{"usual": draft(), "odd": odd, "bare": bare} {
		raw := encode(t, d)
		doc, err := spdxjson.Read(bytes.NewReader(raw))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var again bytes.Buffer
		if err := spdxjson.Write(doc, &again, spdxjson.Indent("  "), spdxjson.EscapeHTML(false)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(raw, again.Bytes()) {
			ours, theirs := strings.Split(string(raw), "\n"), strings.Split(again.String(), "\n")
			for i := range min(len(ours), len(theirs)) {
				if ours[i] != theirs[i] {
					t.Errorf("%s, line %d:\n ours   %s\n theirs %s", name, i+1, ours[i], theirs[i])
					break
				}
			}
		}
	}
}
