package kubernetes_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/lab/kubernetes"
)

// TestSealedNames: the two layouts have the same programs, archives and images,
// each with the same two sidecars; they differ in the documents alone.
func TestSealedNames(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("source", plan.ConfigName))
	if err != nil {
		t.Fatal(err)
	}
	config, err := plan.ParseConfig(raw)
	if err != nil {
		t.Fatal(err)
	}
	v, err := version.Parse("v1.31.2")
	if err != nil {
		t.Fatal(err)
	}
	p, err := config.Expand(v)
	if err != nil {
		t.Fatal(err)
	}
	sealed := map[string]plan.Class{}
	for _, a := range p.Artifacts {
		sealed[a.Name] = a.Class
	}
	documents := map[string]bool{
		k8slayout.Provenance: true, "release-notes.json": true, "announcement.html": true, // of a build that nobody watched
		k8slayout.ReleaseSBOM + ".sha256": true, k8slayout.ReleaseSBOM + ".sha512": true, k8slayout.SourceSBOM + ".sha256": true, k8slayout.SourceSBOM + ".sha512": true,
		k8slayout.SHA256Sums + ".sha256": true, k8slayout.SHA256Sums + ".sha512": true, k8slayout.SHA512Sums + ".sha256": true, k8slayout.SHA512Sums + ".sha512": true,
	}
	today := kubernetes.Make(v)
	for _, name := range today.Names() {
		if _, there := sealed[name]; there == documents[name] {
			t.Errorf("%s: sealed %t", name, there)
		}
	}
	for _, i := range today.Images {
		if sealed["oci/"+i.Name] != plan.Image {
			t.Errorf("no image %s", i.Name)
		}
	}
	for name, class := range sealed {
		if _, there := today.Files[name]; !there && (class == plan.Binary || class == plan.Archive || class == plan.Other) {
			t.Errorf("%s is not published today", name)
		}
	}
}
