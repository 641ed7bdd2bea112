package stories

import (
	"os"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/scene"
)

// TestMixedBuilds: a step is done only as long as what it took is what there
// is, and a release whose parts were made of something else is not sealed.
func TestMixedBuilds(t *testing.T) {
	s := openProject(t, project(t, map[string]string{"release.yaml": strings.Replace(scene.Quick, "echo a lot", "head -c 20 /dev/urandom", 1)}))
	put := func(from, to string) {
		t.Helper()
		raw, err := os.ReadFile(s.Path(from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.Path(to), raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want(t, s.build(t, "lantern", "state"), 0)
	if err := os.CopyFS(s.Path("before"), os.DirFS(s.Path("state"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Path("state", "files", "lot"), []byte("another lot"), 0o644); err != nil {
		t.Fatal(err)
	}
	want(t, s.build(t, "lantern", "state"), 0, "step copy runs again: its input lot has changed")
	want(t, s.build(t, "lantern", "state"), 0, "copy is done already")
	want(t, s.Stage(t.Context()), 0)

	// One run by its number, and yet two: the copy is of the lot before.
	for _, name := range []string{"copy", "provenance/copy.sigstore.json"} {
		put("before/files/"+name, "state/files/"+name)
	}
	for _, name := range []string{"copy.sigstore.json", "copy.spdx.json"} {
		_ = os.Remove(s.Path("state", "files", name)) // they are made anew
	}
	want(t, s.Seal(t.Context()), 1, "BUILD_MIX", "built from a different lot than the one in the release")
	want(t, s.build(t, "lantern", "state"), 0, "step copy runs again")
}
