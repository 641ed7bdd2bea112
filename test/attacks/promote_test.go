package attacks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// errCrash is how a destination ends in the middle.
var errCrash = errors.New("the machine went away")

// destination is where a release is promoted to: a real directory and a real
// image layout, whose writes are counted and can end at any one of them.
type destination struct {
	store.Writer
	*registry.Layout
	dir   string
	place store.Place

	mu    sync.Mutex // guards the rest
	until int        // how many writes succeed; negative: all
	order []string
}

// newDestination is empty: a file place and a registry with nothing in them.
func newDestination(t testing.TB, until int) *destination {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "images"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "images", "index.json"), []byte(`{"schemaVersion":2,"manifests":[]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	return openDestination(t, dir, until)
}

func openDestination(t testing.TB, dir string, until int) *destination {
	t.Helper()
	files := filepath.Join(dir, "files")
	if err := os.MkdirAll(files, 0o755); err != nil {
		t.Fatal(err)
	}
	return &destination{
		dir: dir, until: until,
		Writer: must[store.Writer](t)(store.OpenWriter(files)), place: must[store.Place](t)(store.Open(files, nil)),
		Layout: must[*registry.Layout](t)(registry.OpenLayout(filepath.Join(dir, "images"))),
	}
}

// write notes one write, or fails instead of it.
func (d *destination) write(what string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.until == 0 {
		return errCrash
	}
	d.until--
	d.order = append(d.order, what)
	return nil
}

// Put writes a file. One that fails leaves nothing, as it is promised.
func (d *destination) Put(ctx context.Context, name string, size int64, r io.Reader, o store.PutOptions) error {
	if err := d.write("file " + name); err != nil {
		return err
	}
	return d.Writer.Put(ctx, name, size, r, o)
}

// PushManifest writes an image manifest.
func (d *destination) PushManifest(ctx context.Context, repo string, at registry.Descriptor, raw []byte) error {
	if err := d.write("manifest " + at.Digest.String()); err != nil {
		return err
	}
	return d.Layout.PushManifest(ctx, repo, at, raw)
}

// PushBlob writes a blob.
func (d *destination) PushBlob(ctx context.Context, repo string, at registry.Descriptor, open func() (io.ReadCloser, error)) error {
	if err := d.write("blob " + at.Digest.String()); err != nil {
		return err
	}
	return d.Layout.PushBlob(ctx, repo, at, open)
}

// Tag names an image.
func (d *destination) Tag(ctx context.Context, repo, tag string, at registry.Descriptor) error {
	if err := d.write("tag " + tag); err != nil {
		return err
	}
	return d.Layout.Tag(ctx, repo, tag, at)
}

// has reports whether a file is there.
func (d *destination) has(name string) bool {
	_, err := os.Stat(filepath.Join(d.dir, "files", name))
	return err == nil
}

// gate decides about what lies at the destination.
func (d *destination) gate(t testing.TB, r *attacked) *verdict.Verdict {
	t.Helper()
	return r.gate(t, func(req *gate.Request) { req.Files, req.Images = d.place, d.Layout })
}

// promote copies the release to a destination.
func (r *attacked) promote(t testing.TB, to *destination) error {
	t.Helper()
	from := promote.From{Files: must[store.Place](t)(store.Open(filepath.Join(r.dir, "files"), nil)), Images: r.images}
	plan := promote.Make(r.manifest(t), r.read(t, releasemanifest.Name))
	return promote.Apply(t.Context(), plan, from, promote.To{Files: to.place, Writer: to, Images: to})
}

// TestPromotionOrder: files and images first, then tags, and the manifest as
// the very last write.
func TestPromotionOrder(t *testing.T) {
	r := theWorld(t).attacked(t)
	to := newDestination(t, -1)
	accepted(t, r.promote(t, to))
	accepted(t, to.gate(t, r).Err())
	order := to.order
	if last := order[len(order)-1]; last != "file "+releasemanifest.Name {
		t.Errorf("the last write is %s", last)
	}
	if before := order[len(order)-2]; before != "tag "+r.version.String() {
		t.Errorf("the write before is %s, want the tag", before)
	}
	index := r.graph(t)
	at := func(n *registry.Node) int { return slices.Index(order, "manifest "+n.Descriptor.Digest.String()) }
	for _, child := range index.Children {
		if at(child) < 0 || at(child) > at(index) {
			t.Errorf("platform %s was written at %d, its index at %d", child.Descriptor.Platform, at(child), at(index))
		}
	}
	count := len(order)
	accepted(t, r.promote(t, to))
	if again := to.order[count:]; !slices.Contains(again, "file "+releasemanifest.Name) {
		t.Errorf("the second run did not look at the manifest: %v", again)
	}
	accepted(t, to.gate(t, r).Err())
}

// TestPromotionInterrupted ends the promotion at each of its writes. Whatever
// is there then is no release, and the next run makes it one.
func TestPromotionInterrupted(t *testing.T) {
	r := theWorld(t).attacked(t)
	whole := newDestination(t, -1)
	accepted(t, r.promote(t, whole))
	writes := len(whole.order)
	for k := range writes {
		t.Run(fmt.Sprint("after ", k), func(t *testing.T) {
			to := newDestination(t, k)
			if err := r.promote(t, to); !errors.Is(err, errCrash) {
				t.Fatalf("ended with %v", err)
			}
			if to.has(releasemanifest.Name) {
				t.Fatal("the manifest is there")
			}
			refused(t, to.gate(t, r).Err(), verdict.EvidenceMissing)
			if k%4 != 0 {
				return // every fourth is finished as well: that takes the time
			}
			again := openDestination(t, to.dir, -1)
			accepted(t, r.promote(t, again))
			accepted(t, again.gate(t, r).Err())
		})
	}
}

// TestPromotionConflicts: what is there already is never overwritten, and what
// changed since it was verified does not get through.
func TestPromotionConflicts(t *testing.T) {
	w := theWorld(t)
	other := []byte("other bytes")
	rows := []struct {
		name  string
		set   func(t *testing.T, r *attacked, to *destination)
		codes []verdict.Code
		check func(t *testing.T, to *destination)
	}{
		{"nothing there", func(*testing.T, *attacked, *destination) {}, nil, func(*testing.T, *destination) {}},
		{"the same file there", func(t *testing.T, r *attacked, to *destination) { to.before(t, binary, r.read(t, binary)) }, nil, func(*testing.T, *destination) {}},
		{"other bytes there", func(t *testing.T, _ *attacked, to *destination) { to.before(t, binary, other) }, codes(verdict.FileConflict), func(t *testing.T, to *destination) {
			if body := to.read(t, binary); !bytes.Equal(body, other) {
				t.Errorf("overwritten with %q", body)
			}
		}},
		{"another manifest there", func(t *testing.T, _ *attacked, to *destination) { to.before(t, releasemanifest.Name, other) }, codes(verdict.FileConflict), func(t *testing.T, to *destination) {
			if body := to.read(t, releasemanifest.Name); !bytes.Equal(body, other) {
				t.Errorf("overwritten with %q", body)
			}
		}},
		{"the tag names another image", func(t *testing.T, r *attacked, to *destination) {
			child := r.graph(t).Children[0].Descriptor
			_, err := registry.Copy(t.Context(), to.Layout, r.images, repository, child)
			accepted(t, err)
			accepted(t, to.Layout.Tag(t.Context(), repository, r.version.String(), child))
		}, codes(verdict.TagConflict), func(t *testing.T, to *destination) {
			if slices.ContainsFunc(to.order, func(s string) bool { return strings.HasPrefix(s, "tag ") }) {
				t.Error("the tag was moved")
			}
		}},
		{"F08 a file changed since it was verified", func(t *testing.T, r *attacked, _ *destination) { r.flip(t, binary) }, codes(verdict.Tampered), noFile(binary)},
		{"F08 a file grew since it was verified", func(t *testing.T, r *attacked, _ *destination) {
			r.write(t, binary, append(r.read(t, binary), 'x'))
		}, codes(verdict.Tampered), noFile(binary)},
		{"F08 a file shrank since it was verified", func(t *testing.T, r *attacked, _ *destination) { r.write(t, binary, nil) }, codes(verdict.Tampered), noFile(binary)},
		{"F08 a file went since it was verified", func(t *testing.T, r *attacked, _ *destination) { r.remove(t, binary) }, codes(verdict.Missing), noFile(binary)},
		{"a layer changed since it was verified", func(t *testing.T, r *attacked, _ *destination) {
			path := r.blob(r.graph(t).Children[0].Layers[0].Digest)
			body := must[[]byte](t)(os.ReadFile(path))
			body[len(body)/2] ^= 1
			if err := os.WriteFile(path, body, 0o644); err != nil {
				t.Fatal(err)
			}
		}, codes(verdict.Tampered), func(*testing.T, *destination) {}},
		{"no registry", func(*testing.T, *attacked, *destination) {}, codes(verdict.ConfigParse), func(*testing.T, *destination) {}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r, to := w.attacked(t), newDestination(t, -1)
			row.set(t, r, to)
			had := to.has(releasemanifest.Name)
			err := r.promote(t, to)
			if row.name == "no registry" {
				err = r.promoteFilesOnly(t, newDestination(t, -1))
			}
			refused(t, err, row.codes...)
			if row.codes != nil && row.name != "no registry" && to.has(releasemanifest.Name) != had {
				t.Error("the manifest is there all the same")
			}
			row.check(t, to)
		})
	}
}

// promoteFilesOnly forgets the registry.
func (r *attacked) promoteFilesOnly(t testing.TB, to *destination) error {
	t.Helper()
	from := promote.From{Files: must[store.Place](t)(store.Open(filepath.Join(r.dir, "files"), nil)), Images: r.images}
	return promote.Apply(t.Context(), promote.Make(r.manifest(t), r.read(t, releasemanifest.Name)), from, promote.To{Files: to.place, Writer: to})
}

func noFile(name string) func(*testing.T, *destination) {
	return func(t *testing.T, to *destination) {
		if to.has(name) {
			t.Errorf("%s was written", name)
		}
	}
}

func (d *destination) read(t testing.TB, name string) []byte {
	t.Helper()
	return must[[]byte](t)(os.ReadFile(filepath.Join(d.dir, "files", name)))
}

// before puts a file there before the promotion, uncounted.
func (d *destination) before(t testing.TB, name string, body []byte) {
	t.Helper()
	accepted(t, d.Writer.Put(t.Context(), name, int64(len(body)), bytes.NewReader(body), store.PutOptions{}))
}
