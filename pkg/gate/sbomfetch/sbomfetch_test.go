package sbomfetch_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/gate/sbomfetch"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestFile: the SBOM beside a file is found if it can be read and describes the
// bytes of the file, and is refused otherwise.
func TestFile(t *testing.T) {
	about := func(text string) string {
		raw, err := spdx.Encode(spdx.Draft{
			Name: "hello", Namespace: "https://example.test/sbom/hello", Created: time.Unix(0, 0), Tool: "example-1",
			Packages:      []spdx.Package{{ID: "SPDXRef-hello", Name: "hello", Version: "v1.2.3", Digests: digest.SetOf([]byte(text))}},
			Relationships: []spdx.Relationship{{From: spdx.DocumentID, Type: spdx.Describes, To: "SPDXRef-hello"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for name, row := range map[string]struct {
		document string
		code     verdict.Code
	}{
		"none":                {"", verdict.NoSBOM},
		"of the bytes":        {about("hello"), ""},
		"of other bytes":      {about("other"), verdict.SBOMSubject},
		"unreadable":          {"{", verdict.SBOMSubject},
		"with broken grammar": {about("hello") + "{", verdict.SBOMSubject},
	} {
		path := filepath.Join(t.TempDir(), "hello")
		for suffix, body := range map[string]string{"": "hello", ".spdx.json": row.document} {
			if body != "" {
				if err := os.WriteFile(path+suffix, []byte(body), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		found, err := sbomfetch.File(path)
		if row.code != "" && (err == nil || verdict.FindingOf("", err).Code != row.code) {
			t.Errorf("%s: %v, want %s", name, err, row.code)
		}
		if row.code == "" && (err != nil || len(found) != 1 || string(found[0].Document) != row.document) {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}
}
