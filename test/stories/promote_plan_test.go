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
	put("whole.yaml", "registries:\n- {name: staging.example.test/a, src: true}\n- {name: us.example.test/prod}\nimages:\n- name: demo\n  dmap: {"+pinned("1")+": [\"v1\"]}\n")
	says(0, "moves 1,", "whole.yaml")
	says(2, "want table or json", "whole.yaml", "-o", "yaml")
	says(2, "the manifests list no images", "manifests/a/promoter-manifest.yaml")
}
