package stories

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/scene"
)

// TestAgainstACheckout: a release is held against a clone of its source, by
// everybody who decides about releases.
func TestAgainstACheckout(t *testing.T) {
	s := openSourced(t)
	want(t, s.Stage(t.Context()), 0)
	want(t, s.Release(t.Context()), 0)
	head := s.git(t, "rev-parse", "HEAD")
	t.Run("everybody who decides", func(t *testing.T) {
		for _, command := range [][]string{{"k8s-verify-release"}, {"waybill", "verify", "release"}, {"waybill", "gate", "check"}} {
			args := slices.Concat(command, []string{scene.Version, "--profile", "profile.yaml"})
			want(t, s.Run(t.Context(), args...), 0, "nothing extra", "was not compared with a checkout")
			r := s.Run(t.Context(), append(args, "--source", "lantern")...)
			want(t, r, 0, "nothing extra", "names commit "+head)
			if strings.Contains(r.Stdout, "was not compared") {
				t.Errorf("%s: compared, and said not to be", r)
			}
		}
	})
	t.Run("spellings", func(t *testing.T) {
		for _, source := range []string{"git+file://" + s.Path("lantern"), "lantern@" + scene.Version, "lantern@" + head, "lantern/.git"} {
			want(t, s.Verify(t.Context(), "--source", source), 0, "names commit "+head)
		}
		want(t, s.Verify(t.Context(), "--source", "lantern", "--offline"), 3) // its places are elsewhere
		want(t, s.Verify(t.Context(), "--source", "git+https://example.test/lantern", "--offline"), 2, "name a local clone")
		want(t, s.Verify(t.Context(), "--source", "nowhere"), 3, "UNAVAILABLE")
	})
	t.Run("what is not committed does not count", func(t *testing.T) {
		edit(t, s.Path("lantern", "release.yaml"), "name: lantern", "name: other")
		want(t, s.Verify(t.Context(), "--source", "lantern"), 0, "nothing extra")
		s.git(t, "checkout", "-q", "--", "release.yaml")
	})
	t.Run("another commit", func(t *testing.T) {
		s.git(t, "commit", "-q", "--allow-empty", "-m", "more")
		want(t, s.Verify(t.Context(), "--source", "lantern"), 0, "names commit "+head) // the tag stands
		want(t, s.Verify(t.Context(), "--source", "lantern@main"), 1, "SOURCE_COMMIT", head, "whether the tag was moved")
		s.git(t, "tag", "-f", "-a", "-m", "again", scene.Version)
		want(t, s.Verify(t.Context(), "--source", "lantern"), 1, "SOURCE_COMMIT", head)
		s.git(t, "tag", "-d", scene.Version)
		want(t, s.Verify(t.Context(), "--source", "lantern"), 1, "SOURCE_REF", "fetch the tags")
		s.git(t, "branch", scene.Version, head) // no tag, however it is called
		want(t, s.Verify(t.Context(), "--source", "lantern"), 1, "SOURCE_REF")
		s.git(t, "tag", scene.Version, head)
		want(t, s.Verify(t.Context(), "--source", "lantern"), 0)
	})
}

// TestAgainstACheckoutWithReleaseCommits: the tag names an empty commit whose
// parent was built, by the rule that the commit itself states.
func TestAgainstACheckoutWithReleaseCommits(t *testing.T) {
	s := openSourced(t)
	edit(t, s.Path("lantern", "release.yaml"), `lantern"}`, `lantern", releaseCommit: empty-child}`)
	s.git(t, "commit", "-q", "-a", "-m", "Name release commits")
	built := s.git(t, "rev-parse", "HEAD")
	s.git(t, "commit", "-q", "--allow-empty", "-m", "Release commit for "+scene.Version)
	s.git(t, "tag", "-f", "-a", "-m", "release", scene.Version)
	want(t, s.Stage(t.Context()), 0)
	check := func(source string) scene.Result {
		return s.Run(t.Context(), "waybill", "gate", "check", scene.Version, "--profile", "profile.yaml", "--source", source)
	}
	want(t, check("lantern"), 0, "names commit "+built)
	// The same source, tagged by a commit that is not empty.
	if err := os.WriteFile(s.Path("lantern", "MORE"), []byte("more\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.git(t, "add", "MORE")
	s.git(t, "commit", "-q", "-m", "Release commit for "+scene.Version)
	s.git(t, "tag", "-f", "-a", "-m", "release", scene.Version)
	want(t, check("lantern"), 1, "SOURCE_COMMIT", built)
}
