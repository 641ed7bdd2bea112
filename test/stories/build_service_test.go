package stories

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/scene"
)

// TestBuildService: a service with an account of its own builds, and a release
// manager without the builder's token stages. With a summary of the source the
// release reaches level 3 of KEP-3027, and without it does not.
func TestBuildService(t *testing.T) {
	if why := scene.LowerLevel(t.Context(), bin); why != "" {
		if os.Getenv("CI") != "" || os.Getenv("WAYBILL_REQUIRE_ISOLATION") != "" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	dir := t.TempDir()
	if err := openUp(dir); err != nil {
		t.Fatal(err)
	}
	s, err := scene.Open(t.Context(), scene.Options{Verbose: true, Bin: bin, Dir: dir, Example: shell, Service: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	want(t, s.Stage(t.Context()), 1, "NOT_ISOLATED") // nothing is built, and this account can isolate no step
	if err := s.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	stolen := s.Run(t.Context(), "waybill", "doctor", scene.Version, "--for", "stage", "--profile", "profile.yaml", "--state", "elsewhere", "--source", s.Source(),
		"--identity-token", "release="+s.Path("service", "builder.token"), "--identity-token", "builder="+s.Path("service", "builder.token"))
	want(t, stolen, 2, "permission denied")
	want(t, s.Stage(t.Context()), 0, "nothing extra")
	want(t, s.Release(t.Context()), 0)
	if err := s.VerifySource(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, s.Verify(t.Context(), "--require-level", "build=3"), 0)
	want(t, s.Verify(t.Context(), "--require-level", "kep-3027=3"), 1, "LEVEL", "source.verified-history")
	want(t, s.Verify(t.Context(), "--require-level", "kep-3027=3", "--source-vsa", scene.SourceSummary), 0, "nothing extra")
	controls(t, s)
	transcript(t, s, "docs/levels.md")
}

// controls are the answers about the OpenSSF Baseline: by evidence, by the policy's
// declaration, and none about a single file. A saved verdict has the same.
func controls(t *testing.T, s *scene.Scene) {
	t.Helper()
	all := []string{"met            OSPS-BR-06.01", "met            OSPS-QA-01.02", "declared       OSPS-GV-03.01", "not met        OSPS-BR-04.01", "6 of 12 decidable controls met"}
	want(t, s.Verify(t.Context(), "--report", "osps", "--source-vsa", scene.SourceSummary, "--output", "table", "--output", "json=osps.json"), 0, all...)
	want(t, s.Run(t.Context(), "waybill", "report", "osps.json", "--report", "osps"), 0, all...)
	saved, err := os.ReadFile(s.Path("osps.json"))
	if err != nil || !strings.Contains(string(saved), `"state": "outside"`) {
		t.Errorf("the JSON form lacks the controls: %v", err)
	}
	want(t, s.Verify(t.Context(), "--report", "osps"), 0, "not evidenced  OSPS-QA-01.02", "5 of 12 decidable controls met")
	want(t, s.Run(t.Context(), "waybill", "verify", "file", "osps.json", "--bundle", "osps.json", "--report", "osps", "--certificate-identity", "x", "--certificate-oidc-issuer", "y"), 2)
}

// openUp lets other accounts go through the temporary directories of a test.
func openUp(dir string) error {
	for ; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// TestStageOfABuild: stage takes over a build whose provenance is all there, and
// verifies it. It asks for the builder's token where one is missing.
func TestStageOfABuild(t *testing.T) {
	s := openSourced(t)
	want(t, s.build(t, "lantern", "built"), 0)
	token := s.Path("release.token")
	if err := os.WriteFile(token, []byte(s.Lab.Token("release")), 0o600); err != nil {
		t.Fatal(err)
	}
	staged := func(t *testing.T, state string, change func(t *testing.T, file string)) scene.Result {
		t.Helper()
		if err := os.CopyFS(s.Path(state), os.DirFS(s.Path("built"))); err != nil {
			t.Fatal(err)
		}
		change(t, s.Path(state, "files", "provenance", "compile-linux-amd64.sigstore.json"))
		return s.Run(t.Context(), "waybill", "stage", scene.Version, "--profile", "profile.yaml", "--state", state, "--source", "lantern", "--identity-token", "release="+token, "--confirm")
	}
	want(t, staged(t, "missing", func(t *testing.T, file string) {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}), 2, "no token was given for builder")
	want(t, staged(t, "forged", func(t *testing.T, file string) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var bundle struct {
			Envelope struct{ Payload []byte } `json:"dsseEnvelope"`
		}
		if err := json.Unmarshal(raw, &bundle); err != nil {
			t.Fatal(err)
		}
		forged, err := s.Sign(t.Context(), "release", bundle.Envelope.Payload)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, forged, 0o644); err != nil {
			t.Fatal(err)
		}
	}), 1, "IDENTITY_ROLE")
	// The record is the other account's: whatever it says of the commit is compared
	// with the source and the provenance, and nothing in it leads elsewhere.
	recorded := func(key, value string) func(*testing.T, string) {
		return func(t *testing.T, file string) {
			path := filepath.Join(filepath.Dir(file), "..", "..", "release.json")
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			was := regexp.MustCompile(`"` + key + `": "[^"]*"`)
			if !was.Match(raw) {
				t.Fatalf("no %s in %s", key, raw)
			}
			if err := os.WriteFile(path, was.ReplaceAll(raw, []byte(`"`+key+`": "`+value+`"`)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.git(t, "clone", "--quiet", "--mirror", ".", s.Path("mirror"))
	want(t, staged(t, "ref", recorded("Ref", "refs/tags/v9.9.9")), 2, "another repository or ref")
	want(t, staged(t, "repository", recorded("Repository", "git+file://"+s.Path("mirror"))), 2, "another repository or ref")
	want(t, staged(t, "tree", recorded("Tree", strings.Repeat("d", 40))), 1, "SOURCE_COMMIT", "another tree")
	want(t, staged(t, "time", recorded("Time", "2001-01-01T00:00:00Z")), 1, "SOURCE_COMMIT", "another time")
	want(t, s.Run(t.Context(), "waybill", "sbom", scene.Version, "--profile", "profile.yaml", "--state", "ref"), 0)
	want(t, s.Run(t.Context(), "waybill", "sign", scene.Version, "--profile", "profile.yaml", "--state", "ref", "--identity-token", "release="+token, "--confirm"), 1, "SOURCE_REF")
	want(t, staged(t, "link", func(t *testing.T, file string) {
		link, others := filepath.Join(filepath.Dir(file), "..", "..", "work"), s.Path("others", "work")
		if err := errors.Join(os.RemoveAll(link), os.MkdirAll(others, 0o755), os.Symlink(s.Path("others"), link)); err != nil {
			t.Fatal(err)
		}
	}), 2, "FILE_TYPE")
	if _, err := os.Stat(s.Path("others", "work")); err != nil {
		t.Errorf("the sweep followed a link: %v", err)
	}
	want(t, staged(t, "whole", func(*testing.T, string) {}), 0, "no builder identity was given", "nothing extra")
}
