package gate

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
)

// TestMostOf: an object is read to the size that is signed for its name, and
// further only if another file of the release has the size that it has.
func TestMostOf(t *testing.T) {
	file := func(name string, size int64) manifest.Artifact {
		return manifest.Artifact{Artifact: plan.Artifact{Name: name}, Size: size}
	}
	most := mostOf([]manifest.Artifact{file("small", 84), file("large", 1<<30)})
	for _, row := range []struct {
		name         string
		listed, want int64
	}{
		{"small", 84, 84},
		{"small", 85, 84},
		{"small", 1 << 40, 84},
		{"small", 1 << 30, 1 << 30},
		{"small", 0, 84},
		{"large", 84, 1 << 30},
		{"large", 1<<30 + 1, 1 << 30},
		{"unlisted", 7, 0},
	} {
		if got := most(store.Object{Name: row.name, Size: row.listed}); got != row.want {
			t.Errorf("%s of %d bytes is read as far as %d, want %d", row.name, row.listed, got, row.want)
		}
	}
}
