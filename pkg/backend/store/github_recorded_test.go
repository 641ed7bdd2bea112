package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestRecordedHasMore: a file that lies beside the assets of a downloaded release is
// listed, although the recorded listing does not have it.
func TestRecordedHasMore(t *testing.T) {
	for _, c := range []struct {
		name, file string
		want       string
		code       verdict.Code
	}{
		{"the assets alone", "", "LICENSE bin/tool", ""},
		{"an extra file", "install.sh", "LICENSE bin/tool install.sh", ""},
		{"an extra file in a directory", "bin/other", "LICENSE bin/other bin/tool", ""},
		{"another file with the planned name", "bin/tool", "", verdict.Path},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{
				"assets.json": `[{"id":1,"name":"bin_tool","label":"bin/tool","state":"uploaded","size":1},{"id":2,"name":"LICENSE","label":null,"state":"uploaded","size":1}]`,
				"bin_tool":    "x", "LICENSE": "x", c.file: "x",
			} {
				if name == "" {
					continue
				}
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			place, err := store.Open("github+file://"+filepath.ToSlash(dir), nil)
			if err != nil {
				t.Fatal(err)
			}
			objects, err := place.List(t.Context())
			var names []string
			for _, o := range objects {
				names = append(names, o.Name)
			}
			if got := strings.Join(names, " "); got != c.want || err != nil && verdict.FindingOf("", err).Code != c.code || (err != nil) != (c.code != "") {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
}
