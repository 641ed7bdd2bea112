package seal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// A long manifest is written with its pages, which are read again from where
// they lie; a short one has none. Pages that were left there by a run that was
// interrupted are no files of the release.
func TestPagesAreWritten(t *testing.T) {
	v, err := version.Parse("v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]int{manifest.PageEntries: 0, manifest.PageEntries + 1: 2} {
		m := manifest.Manifest{
			Name: "fleet", Version: v, Revision: 1, SealedOn: time.Unix(0, 0).UTC(), FilesURI: "https://dl.example.test/fleet/",
			Source: manifest.Source{Commit: strings.Repeat("a", 40)},
		}
		for i := range n {
			name := fmt.Sprintf("bin/tool-%04d", i)
			m.Artifacts = append(m.Artifacts, manifest.Artifact{
				Artifact: plan.Artifact{Name: name, Class: plan.Binary, MediaType: "application/octet-stream"}, Digests: digest.SetOf([]byte(name)),
			})
		}
		m.Config = digest.Of(digest.SHA256, nil)
		w, err := workspace.Create(t.TempDir(), workspace.Identity{Name: m.Name, Version: v, Commit: git.Commit{Commit: m.Source.Commit}, Plan: m.Config})
		if err != nil {
			t.Fatal(err)
		}
		req := Request{Workspace: w, Plan: plan.Plan{Name: m.Name, Version: v}, Clock: time.Now}
		if err := writeManifest(t.Context(), req, m, []byte("a bundle")); err != nil {
			t.Fatal(err)
		}
		objects, err := w.Files().List(t.Context())
		if err != nil || len(objects) != want+1 || objects[want].Name != releasemanifest.Name {
			t.Fatalf("%d entries: %v, %v; want %d pages and the manifest", n, objects, err, want)
		}
		root, err := m.Statement()
		if err != nil {
			t.Fatal(err)
		}
		read, err := manifest.ReadManifest(root, openPages(t.Context(), req))
		if err != nil || len(read.Artifacts) != n || len(read.Pages) != want {
			t.Errorf("%d entries: read as %d on %d pages, %v", n, len(read.Artifacts), len(read.Pages), err)
		}
		if err := w.Writer().Put(t.Context(), releasemanifest.PageDir+"left.json", -1, strings.NewReader("x"), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := checkExtra(t.Context(), req); err != nil {
			t.Errorf("%d entries: %v", n, err)
		}
	}
}
