package stories

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"

	"github.com/waybill-release/waybill/test/scene"
)

// TestBaseInTheSource: a base image may lie in the source as an OCI layout. It
// is pinned, named and held against its digest as one of a registry is.
func TestBaseInTheSource(t *testing.T) {
	s := openSourced(t)
	dir := s.Path("lantern", "bases", "static")
	layOut(t, dir)
	want(t, s.Run(t.Context(), "waybill", "lock", "--dir", "lantern", "--base", "static=oci:bases/static", "--confirm"), 0, "+ base static oci:bases/static sha256:")
	tag(t, s.Scene, scene.Version)
	want(t, s.build(t, "lantern", "state"), 0)
	base := materialOf(s.predicate(t, "state", "image").BuildDefinition, "base static")
	if !strings.HasPrefix(base.URI, "oci:bases/static@sha256:") || !strings.HasSuffix(base.URI, base.Digest["sha256"]) {
		t.Errorf("the base is named %+v", base)
	}

	blobs, err := filepath.Glob(filepath.Join(dir, "blobs", "sha256", "*"))
	if err != nil || len(blobs) < 5 {
		t.Fatalf("the layout: %q, %v", blobs, err)
	}
	for _, blob := range blobs {
		if err := os.WriteFile(blob, []byte("other bytes"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tag(t, s.Scene, scene.Version)
	want(t, s.build(t, "lantern", "other"), 1, "TAMPERED", "bases/static")
}

// layOut writes a base for the platforms of the project, as others lay images
// out.
func layOut(t *testing.T, dir string) {
	t.Helper()
	list := mutate.IndexMediaType(empty.Index, "application/vnd.oci.image.index.v1+json")
	for _, arch := range []string{"amd64", "arm64"} {
		img, err := random.Image(64, 1)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		config = config.DeepCopy()
		config.OS, config.Architecture = "linux", arch
		if img, err = mutate.ConfigFile(img, config); err != nil {
			t.Fatal(err)
		}
		list = mutate.AppendManifests(list, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	top, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := top.AppendIndex(list); err != nil {
		t.Fatal(err)
	}
}
