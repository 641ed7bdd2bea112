package stories

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/scene"
)

// TestSeveralVersionsAreSeveralReleases: what signs only the first of two
// leaves the second without evidence. Here each has all of its own, and no
// release departs before every one of them could.
func TestSeveralVersionsAreSeveralReleases(t *testing.T) {
	s := openSourced(t)
	const next = "v0.2.0-alpha.0"
	stage := func(state string, args ...string) scene.Result {
		return s.Run(t.Context(), append(append([]string{"waybill", "stage", scene.Version, next, "--profile", "profile.yaml", "--state", state}, s.flags(t)...), args...)...)
	}
	none := func(paths ...string) {
		t.Helper()
		for _, path := range paths {
			if _, err := os.Stat(s.Path(path)); err == nil {
				t.Errorf("%s was made", path)
			}
		}
	}
	t.Run("one of them cannot be", func(t *testing.T) {
		before := s.log(t)
		want(t, stage("state", "--confirm", "--output", "table", "--output", "json=verdict-{version}.json"), 2, next+", source", "create the tag")
		none("state")
		if s.log(t) != before {
			t.Error("something was signed")
		}
		for _, v := range []string{scene.Version, next} {
			if a := s.verdict(t, v); a.Outcome != "malformed" {
				t.Errorf("%s: %s", v, a.Outcome)
			}
		}
	})
	s.git(t, "commit", "-q", "--allow-empty", "-m", "next")
	s.git(t, "tag", "-a", "-m", "next", next)
	t.Run("a plan of both", func(t *testing.T) {
		want(t, stage("state"), 0, "2 releases, 60 artifacts", "nothing was done")
		none("state")
	})
	t.Run("one file for two verdicts", func(t *testing.T) {
		want(t, stage("state", "--confirm", "--output", "json=verdict.json"), 2, "{version}")
		want(t, s.Run(t.Context(), append([]string{"waybill", "stage", next, next, "--profile", "profile.yaml", "--confirm"}, s.flags(t)...)...), 2, "given twice")
		none("state")
	})
	t.Run("both", func(t *testing.T) {
		want(t, stage("state", "--confirm", "--output", "table", "--output", "json=verdict-{version}.json"), 0, "release 1 of 2", "release 2 of 2")
		for _, v := range []string{scene.Version, next} {
			if a := s.verdict(t, v); a.Outcome != "accepted" || !strings.HasSuffix(a.Headline, "nothing extra") {
				t.Errorf("%s: %s", v, a.Headline)
			}
			want(t, s.Run(t.Context(), "waybill", "gate", "check", v, "--profile", "profile.yaml"), 0, "lantern "+v, "nothing extra")
			want(t, s.Run(t.Context(), "waybill", "release", v, "--profile", "profile.yaml", "--state", "state/"+v, "--confirm"), 0, "nothing extra")
		}
	})
	t.Run("the first fails", func(t *testing.T) {
		if err := os.WriteFile(s.Path("state", scene.Version, "files", "stray"), []byte("nobody planned this"), 0o644); err != nil {
			t.Fatal(err)
		}
		r := stage("state", "--confirm", "--output", "table", "--output", "json=verdict-{version}.json")
		want(t, r, 1, "SEAL_EXTRA", next+" was not started, because "+scene.Version+" failed")
		if strings.Contains(r.Stderr, "release 2 of 2") {
			t.Errorf("the second was begun:\n%s", r.Stderr)
		}
		if a := s.verdict(t, scene.Version); a.Outcome != "refused" {
			t.Errorf("the first: %s", a.Outcome)
		}
		if a := s.verdict(t, next); a.Outcome != "unavailable" {
			t.Errorf("the second: %s", a.Outcome)
		}
	})
}

// verdict reads the verdict file of a version.
func (s sourced) verdict(t *testing.T, version string) (a answer) {
	t.Helper()
	raw, err := os.ReadFile(s.Path("verdict-" + version + ".json"))
	if err == nil {
		err = json.Unmarshal(raw, &a)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}
