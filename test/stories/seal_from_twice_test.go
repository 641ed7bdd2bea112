package stories

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"slices"
	"testing"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
)

// notTwice: one version has one first revision. Another list of it is not
// signed where one is sealed, whatever differs, and nothing is copied over.
func (d *desk) notTwice(t *testing.T, m toolmade) {
	t.Helper()
	before := d.listed(t)
	refused := func(dist string, says ...string) {
		t.Helper()
		want(t, d.sealsFrom(t, m, "release", dist, "from", "--confirm"), 1, append(says, "MANIFEST_EQUIVOCATION", "sealed already", "another --state")...)
		if after := d.listed(t); !maps.EqualFunc(before, after, bytes.Equal) {
			t.Error("something of the sealed release changed")
		}
	}
	rebuilt := maps.Clone(m.files)
	rebuilt[m.rebuilt] = append(slices.Clone(rebuilt[m.rebuilt]), '!')
	if err := rebuilt.Write(d.Path("rebuilt")); err != nil {
		t.Fatal(err)
	}
	refused("rebuilt", "has other bytes")
	want(t, d.sealsFrom(t, m, "release", "rebuilt", "from"), 1, "MANIFEST_EQUIVOCATION", "sealed already") // and a dry run foresees it
	want(t, d.sealsFrom(t, m, "release", "dist", "from"), 0, "everything is signed already", "1 signed already", "0 certificates, 0 timestamps, 0 log entries")
	if len(m.images) == 0 {
		want(t, d.sealsFrom(t, m, "release", "rebuilt", "unpublished", "--confirm"), 0, "imported ", "sealed")
	} else {
		d.pushAs(t, m.images[0], "other")
		refused("dist", m.images[0])
		d.pushAs(t, m.images[0], m.images[0])
	}
	want(t, d.sealsFrom(t, m, "release", "dist", "from", "--confirm"), 0, "sealed already")
}

// listed are the files in the state directory of what was sealed.
func (d *desk) listed(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	root := os.DirFS(d.Path("from", "files"))
	err := fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			files[name], err = fs.ReadFile(root, name)
		}
		return err
	})
	if err != nil || files[releasemanifest.Name] == nil {
		t.Fatalf("%d files, %v", len(files), err)
	}
	return files
}
