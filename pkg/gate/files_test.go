package gate

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/release"
)

// TestMostOf: a small file without an end is not read as far as the largest.
func TestMostOf(t *testing.T) {
	file := func(name string, size int64) release.Artifact {
		return release.Artifact{Artifact: plan.Artifact{Name: name}, Size: size}
	}
	most := mostOf([]release.Artifact{file("small", 84), file("large", 1<<30), file("larger", 1<<30+1)})
	for name, want := range map[string]int64{"small": 84 + swapped, "large": 1<<30 + 1, "larger": 1<<30 + 1, "unlisted": swapped} {
		if got := most(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	if got := mostOf([]release.Artifact{file("small", 84), file("other", 100)})("small"); got != 100 {
		t.Errorf("in a small release: %d", got)
	}
}
