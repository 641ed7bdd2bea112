// Package names makes manifests of very many names, and measures what it takes
// to read one and to hold it against what is there.
//
// The files themselves are left out: what a place lists, and what was hashed of
// it, is made up while it is compared. Nothing is signed either, for that takes
// the same for one name as for a million.
package names

import (
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/census"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/bench"
)

const rootName = "root.json"

// name is the i-th name, and the bytes that it names. Names are as long as those
// of a large project.
func name(i int) string { return fmt.Sprintf("bin/linux/amd64/tool-%07d", i) }

// Make writes a manifest of n names to a directory: its root, and the pages
// that it needs.
func Make(dir string, n int) error {
	v, err := version.Parse("v1.0.0")
	if err != nil {
		return err
	}
	m := manifest.Manifest{
		Name: "freight", Version: v, Revision: 1, SealedOn: time.Unix(0, 0).UTC(), FilesURI: "https://dl.example.test/freight/v1.0.0/",
		Source: manifest.Source{Repository: "https://example.test/freight", Commit: strings.Repeat("a", 40)},
		Config: digest.Of(digest.SHA256, nil), Artifacts: make([]manifest.Artifact, n),
	}
	for i := range m.Artifacts {
		own := name(i)
		m.Artifacts[i] = manifest.Artifact{
			Artifact: plan.Artifact{Name: own, Class: plan.Binary, MediaType: "application/octet-stream", Platform: "linux/amd64", Step: "compile-linux-amd64"},
			Digests:  digest.SetOf([]byte(own)), Size: int64(len(own)),
			Provenance: "provenance/compile-linux-amd64.sigstore.json", Signature: own + ".sigstore.json",
		}
	}
	write := func(name string, raw []byte) error {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, raw, 0o600)
	}
	root, err := m.Seal(func(p manifest.Page, raw []byte) error { return write(p.Name, raw) })
	if err != nil {
		return err
	}
	return write(rootName, root.Raw())
}

// Census reads the manifest of n names that was made in dir, one page at a time,
// holds it against a place of just these files, and says on w what that took.
// What the place lists is held all the while, as it is when a place is verified.
func Census(w io.Writer, dir string, n int) error {
	listed := make([]store.Object, n)
	for i := range listed {
		listed[i] = store.Object{Name: name(i), Size: int64(len(name(i)))}
	}
	return bench.Measure(w, func() error {
		raw, err := os.ReadFile(filepath.Join(dir, rootName))
		if err != nil {
			return err
		}
		s, err := intoto.Parse(raw)
		if err != nil {
			return err
		}
		root, err := manifest.ParseRoot(s)
		if err != nil {
			return err
		}
		findings, err := census.Stream(wanted(root, dir), hashed(listed))
		if err == nil && len(findings) > 0 {
			err = fmt.Errorf("%d findings, the first: %s %s", len(findings), findings[0].Code, findings[0].Subject)
		}
		return err
	})
}

// wanted is what the manifest lists, as it is read.
func wanted(root manifest.Root, dir string) iter.Seq2[census.Item, error] {
	return func(yield func(census.Item, error) bool) {
		for a, err := range root.Entries(func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, filepath.FromSlash(name))) }) {
			if !yield(census.Item{Name: a.Name, Digests: a.Digests, Size: a.Size}, err) {
				return
			}
		}
	}
}

// hashed is what the place has.
func hashed(listed []store.Object) iter.Seq2[census.Item, error] {
	return func(yield func(census.Item, error) bool) {
		for _, o := range listed {
			if !yield(census.Item{Name: o.Name, Digests: digest.SetOf([]byte(o.Name)), Size: o.Size}, nil) {
				return
			}
		}
	}
}
