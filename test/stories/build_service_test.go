package stories

import (
	"encoding/json"
	"os"
	"path/filepath"
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
	s, err := scene.Open(t.Context(), scene.Options{Bin: bin, Dir: dir, Example: shell, Service: true})
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
	want(t, s.Stage(t.Context()), 0, "ACCEPTED: complete")
	want(t, s.Release(t.Context()), 0)
	if err := s.VerifySource(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, s.Verify(t.Context(), "--require-level", "build=3"), 0)
	want(t, s.Verify(t.Context(), "--require-level", "kep-3027=3"), 1, "LEVEL", "source.verified-history")
	want(t, s.Verify(t.Context(), "--require-level", "kep-3027=3", "--source-vsa", scene.SourceSummary), 0, "ACCEPTED: complete")
	readme(t, s, 2)
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
	want(t, staged(t, "whole", func(*testing.T, string) {}), 0, "no builder identity was given", "ACCEPTED: complete")
}
