package stories

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPromotePlan reads the manifests of Kubernetes' promoter as their
// reviewers have them, and asks no registry.
func TestPromotePlan(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pinned := func(digit string) string { return `"sha256:` + strings.Repeat(digit, 64) + `"` }
	for _, project := range []string{"a", "b"} {
		put("manifests/"+project+"/promoter-manifest.yaml", fmt.Sprintf(`registries:
- {name: staging.example.test/%s, src: true}
- {name: eu.example.test/prod, service-account: promoter@example.test}
- {name: us.example.test/prod, service-account: promoter@example.test}
`, project))
		put("images/"+project+"/images.yaml", "- name: demo\n  dmap:\n    "+pinned("1")+": [\"v1\"]\n")
	}
	plan := func(args ...string) (out string, code int) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "waybill"), append([]string{"promote", "plan"}, args...)...)
		cmd.Dir = dir
		raw, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(raw), cmd.ProcessState.ExitCode()
	}
	says := func(code int, said string, args ...string) string {
		t.Helper()
		out, got := plan(args...)
		if got != code || !strings.Contains(out, said) {
			t.Errorf("plan %q ended with %d, want %d and %q:\n%s", args, got, code, said, out)
		}
		return out
	}
	says(0, "routes 2, digests to judge 2, moves 4, repositories 4, tags 4", ".")
	first := says(0, `"schema":"waybill/promotion-plan/v1"`, ".", "-o", "json")
	if again := says(0, "", ".", "-o", "json"); again != first {
		t.Error("the same manifests gave another plan")
	}

	put("images/b/images.yaml", "- name: demo\n  dmap:\n    "+pinned("2")+": [\"v1\"]\n")
	says(1, "TAG_CONFLICT eu.example.test/prod/demo:v1", ".")
	put("images/b/images.yaml", "- name: demo\n  dmap:\n    "+pinned("2")+": [\"v2\"]\n")
	says(0, "tags 4", ".")

	put("images/b/images.yaml", "- name: demo\n  dmap:\n    "+pinned("2")+": [\"v2\"]\n    "+pinned("2")+": [\"v3\"]\n")
	says(2, "images/b", ".")
	if err := os.Remove(filepath.Join(dir, "images", "b", "images.yaml")); err != nil {
		t.Fatal(err)
	}
	says(2, "images/b/images.yaml", ".")
	says(2, "no such file", "nowhere.yaml")
	keepGoing(t, plan, put, pinned)
	put("whole.yaml", "registries:\n- {name: staging.example.test/a, src: true}\n- {name: us.example.test/prod}\nimages:\n- name: demo\n  dmap: {"+pinned("1")+": [\"v1\"]}\n")
	says(0, "moves 1,", "whole.yaml")
	says(2, "want table or json", "whole.yaml", "-o", "yaml")
	says(2, "the manifests list no images", "manifests/a/promoter-manifest.yaml")
}

// keepGoing plans a tree with two bad lists: without the flag nothing is planned,
// with it everything but those lists, and everything left out is listed.
func keepGoing(t *testing.T, plan func(...string) (string, int), put func(name, text string), pinned func(string) string) {
	t.Helper()
	for project, list := range map[string]string{
		"a": "- name: demo\n  dmap:\n    " + pinned("1") + ": [\"v1\"]\n- name: demo\n  dmap:\n    " + pinned("2") + ": [\"v2\"]\n",
		"b": "- name: demo\n  dmap:\n    " + pinned("1") + ": [\"v 1\"]\n- name: other\n  dmap:\n    " + pinned("") + ": []\n",
		"c": "- name: c/demo\n  dmap:\n    " + pinned("3") + ": [\"v3\"]\n",
		"d": "# No images yet\n",
	} {
		put("tree/manifests/"+project+"/promoter-manifest.yaml", "registries:\n- {name: staging.example.test/"+project+", src: true}\n- {name: eu.example.test/prod}\n")
		put("tree/images/"+project+"/images.yaml", list)
	}
	put("tree/manifests/d/promoter-manifest.yaml", "registries:\n- {name: staging.example.test/d, src: true}\n- {name: eu.example.test/prod/c}\n")
	faults := []string{"images/b/images.yaml:3: demo: \"v 1\" is not a tag", "images/b/images.yaml:6: other: \"sha256:\" is not", "images/c/images.yaml:1: c/demo: the image is in eu.example.test/prod/c, which is a place of d"}
	out, code := plan("tree")
	for _, said := range append(faults, "malformed: CONFIG") {
		if code != 2 || !strings.Contains(out, said) || strings.Contains(out, "moves") {
			t.Errorf("a tree with bad lists ended with %d, want 2, %q and no plan:\n%s", code, said, out)
		}
	}
	out, code = plan("tree", "--keep-going")
	for _, said := range append(faults, "routes 2, digests to judge 2, moves 2,", "refused: PLAN_MISSING plan: it lacks what 2 lists with faults would promote, 3 names",
		"left out of b: staging.example.test/b/demo", "left out of b: staging.example.test/b/other", "left out of c: staging.example.test/c/c/demo") {
		if code != 1 || !strings.Contains(out, said) {
			t.Errorf("--keep-going ended with %d, want 1 and %q:\n%s", code, said, out)
		}
	}
	if out, code := plan("tree/manifests/a/promoter-manifest.yaml", "tree", "--keep-going"); code != 2 || strings.Contains(out, "moves") {
		t.Errorf("a bad argument beside a tree ended with %d, want 2 and no plan:\n%s", code, out)
	}
	put("tree/images/b/images.yaml", "- name: demo\n  dmap:\n    "+pinned("1")+": [\"v1\"]\n")
	put("tree/images/c/images.yaml", "- name: demo\n  dmap:\n    "+pinned("3")+": [\"v3\"]\n")
	if out, code := plan("tree", "--keep-going"); code != 0 || strings.Contains(out, "left out") || !strings.Contains(out, "routes 4, digests to judge 4,") {
		t.Errorf("the twin without faults ended with %d, want 0:\n%s", code, out)
	}
}
