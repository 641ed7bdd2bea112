package faults_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-release/waybill/test/faults"
	"github.com/waybill-release/waybill/test/scene"
)

// Row 11: bodies that are longer than announced, and bodies that never end. The
// reader stops where such a body could at most have ended, and says which.
func TestRow11EndlessBodies(t *testing.T) {
	t.Parallel()
	verifications(t, []spoiled{
		{"file", toBucket, all("GET", "lantern-linux-amd64.tar.gz?", faults.Endless), 1, "lantern-linux-amd64.tar.gz"},
		{"file that says so", toBucket, all("GET", "lantern-linux-amd64.tar.gz?", faults.Lengthens), 1, "lantern-linux-amd64.tar.gz"},
		{"manifest of the release", toBucket, all("GET", "release.manifest", faults.Endless), 1, ""},
		{"listing", toBucket, all("GET", "/o?", faults.Endless), 3, "a page exceeds"},
		{"image manifest", toRegistry, all("GET", "/manifests/sha256:", faults.Endless), 1, "TAMPERED"},
		{"blob", toRegistry, all("GET", "/blobs/", faults.Endless), 1, "TAMPERED"},
		{"referrers", toRegistry, all("GET", "/referrers/", faults.Endless), 1, "LIMIT"},
		{"tags", toRegistry, all("GET", "/tags/list", faults.Endless), 1, "LIMIT"},
		{"an error", toBucket, all("GET", "/o?", faults.EndlessError(500)), 3, ""},
		{"an error of the registry", toRegistry, all("GET", "/manifests/", faults.EndlessError(500)), 3, ""},
	})
	promotions(t, []spoiled{
		{"file", fromFiles, all("GET", "lantern-linux-amd64.tar.gz?", faults.Endless), 1, "lantern-linux-amd64.tar.gz"},
		{"image manifest", fromImages, all("GET", "/manifests/sha256:", faults.Endless), 1, "TAMPERED"},
		{"blob", fromImages, all("GET", "/blobs/", faults.Endless), 1, "TAMPERED"},
		{"answer to an upload", toBucket, all("POST", "/upload/", faults.Endless), 0, ""},
	})
}

// Row 11, for the other commands that read what is published.
func TestRow11OtherReaders(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	want(t, n.promote(), 0)
	n.bucket.Spoil(all("GET", "/o?", faults.Endless)...)
	n.registry.Spoil(all("GET", "/tags/list", faults.Endless)...)
	n.stagedImage.Spoil(all("GET", "/tags/list", faults.Endless)...)
	want(t, staged.Run(t.Context(), "waybill", "verify", "release", scene.Version, "--profile", n.profile), 1, "a page exceeds", "LIMIT")
	want(t, staged.Run(t.Context(), "waybill", "gate", "check", scene.Version, "--profile", n.profile), 1, "LIMIT")
	n.converges()
}

// Row 11, for the trust root.
func TestRow11EndlessTrustRoot(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"timestamp.json", "snapshot.json", "targets.json", "trusted_root.json"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := faults.Before(t, staged.Lab.TUF, all("GET", what, faults.Endless)...)
			root := filepath.Join(t.TempDir(), "root.json")
			if err := os.WriteFile(root, staged.Lab.TUFRoot, 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"waybill", "trust", "init", "--tuf", p.URL, "--root", root, "--cache", filepath.Join(t.TempDir(), "cache")}
			want(t, staged.Run(t.Context(), args...), 1, "LIMIT")
			if p.Spoiled() == 0 {
				t.Error("the fault was never met")
			}
		})
	}
}
