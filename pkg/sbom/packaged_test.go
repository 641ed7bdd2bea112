package sbom_test

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestPackaged: a package of another ecosystem that is described itself is seen,
// not catalogued, by its name or its head; its twin is an archive like any other.
func TestPackaged(t *testing.T) {
	archive := pack(t, file("README", "x"))
	for name, row := range map[string]struct {
		raw  string
		want string
	}{
		"wick_1.0_all.deb": {"!<arch>\ndebian-binary   ", "Debian package: wick_1.0_all.deb"},
		"renamed":          {"!<arch>\ndebian-binary   ", "Debian package: renamed"},
		"wick":             {"\xed\xab\xee\xdb\x03\x00", "RPM: wick"},
		"libwick.a":        {"!<arch>\n/               ", ""},
		"wick-1.0.crate":   {string(archive), "Cargo: wick-1.0.crate"},
		"wick-1.0.tar.gz":  {string(archive), ""},
	} {
		m, err := sbom.Describe(t.Context(), input(), name, content([]byte(row.raw)), nil)
		said := strings.Join(parsed(t, m, err).Unknown(), "\n")
		if want := "seen, not catalogued: " + row.want; row.want == "" && strings.Contains(said, "seen, not") || row.want != "" && !strings.Contains(said, want) {
			t.Errorf("%s: %q", name, said)
		}
	}
}

// TestNoSuchPlatform names the platforms that there are.
func TestNoSuchPlatform(t *testing.T) {
	_, content := inLayout(t, imageOf(t, layerOf(t, "a", "1")))
	_, err := content.Only("linux/mips")
	refused(t, err, verdict.Platform, "linux/amd64")
	if f := verdict.FindingOf("", err); !strings.Contains(f.Fix, "linux/amd64") {
		t.Errorf("%+v", f)
	}
	if _, err := content.Only("linux/amd64"); err != nil {
		t.Error(err)
	}
}
