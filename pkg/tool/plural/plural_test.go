package plural_test

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/tool/plural"
)

func TestOf(t *testing.T) {
	for _, row := range []struct {
		n    int
		noun string
		want string
	}{
		{0, "file", "0 files"}, {1, "digest", "1 digest"}, {2, "digest", "2 digests"}, {1, "entry", "1 entry"}, {3, "entry", "3 entries"},
		{2, "key", "2 keys"}, {2, "alias", "2 aliases"}, {2, "match", "2 matches"}, {2, "image manifest", "2 image manifests"},
	} {
		if got := plural.Of(row.n, row.noun); got != row.want {
			t.Errorf("%q, want %q", got, row.want)
		}
	}
}
