package provenance_test

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The numbers of a version are compared, never its text. A shorter version also
// covers candidates; a whole one covers only itself.
func TestTagged(t *testing.T) {
	for _, row := range []struct {
		versioned, ref string
		code           verdict.Code // empty if covered
	}{
		{"v14", "refs/tags/v14", ""},
		{"v14", "refs/tags/v14.2", ""},
		{"v14", "refs/tags/v14.2.3", ""},
		{"v14", "refs/tags/v14.2.3-rc.1", ""},
		{"v14.2", "refs/tags/v14.2.3", ""},
		{"v14.0", "refs/tags/v14", ""},
		{"v14.2.3", "refs/tags/v14.2.3", ""},
		{"v14.2.3", "refs/tags/v14.2.3+build", ""},
		{"v14.2.3-rc.1", "refs/tags/v14.2.3-rc.1", ""},
		{"v1", "refs/tags/v14", verdict.SourceRef},
		{"v14.2", "refs/tags/v14.20.0", verdict.SourceRef},
		{"v14.2", "refs/tags/v14", verdict.SourceRef},
		{"v14.0.0", "refs/tags/v14.0.0", ""},
		{"v14.0.0", "refs/tags/v14", verdict.SourceRef}, // which moves
		{"v14.0.0", "refs/tags/v14.0", verdict.SourceRef},
		{"v14.2.3", "refs/tags/v14.2", verdict.SourceRef},
		{"v14.2.3", "refs/tags/v14.2.3-rc.1", verdict.SourceRef},
		{"v14.2.3-rc.1", "refs/tags/v14.2.3-rc.2", verdict.SourceRef},
		{"v14", "refs/tags/14.2.3", verdict.SourceRef},
		{"v14", "refs/tags/v14.2.3.4", verdict.SourceRef},
		{"v14", "refs/tags/v14/../v13", verdict.SourceRef},
		{"v14", "refs/heads/v14.2.3", verdict.SourceRef},
		{"v14", "v14.2.3", verdict.SourceRef},
		{"v14", "", verdict.SourceRef},
		{"", "", verdict.Usage},
		{"14", "refs/tags/v14", verdict.Usage},
		{"v14.2.3.4", "refs/tags/v14.2.3.4", verdict.Usage},
		{"v14.2.3+build", "refs/tags/v14.2.3+build", verdict.Usage},
	} {
		err := (provenance.Source{Ref: row.ref}).Tagged(row.versioned)
		if row.code == "" && err != nil || row.code != "" && (err == nil || verdict.FindingOf("", err).Code != row.code) {
			t.Errorf("%q for %q: %v, want %q", row.ref, row.versioned, err, row.code)
		}
	}
}
