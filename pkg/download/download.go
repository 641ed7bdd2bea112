// Package download keeps what is read of a release, and shows it only after it
// was accepted.
//
// A [Download] is a place: whoever verifies a release reads through it, and
// what was read to its end lies beside the directory that was asked for, under
// the same name with [Suffix]. [Download.Finish] leaves there what was
// verified and nothing else, and gives it the directory's name, at once. A run
// that ends before that shows nothing; the next takes over every file whose
// bytes are those that the manifest lists, and fetches the others again.
//
//	d, err := download.Open("release", place)
//	decided := gate.Decide(ctx, gate.Request{Files: d, …})
//	err = d.Finish(ctx, names)
//
// A manifest whose names cannot lie in one directory of every system is refused
// on all of them: see [store.CheckNames].
//
// Which files are whole is read from a manifest that nobody verified yet. It
// decides what is fetched again, never what is believed.
package download

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/intoto"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
)

// Suffix is what the name of the directory has until everything in it was
// accepted.
const Suffix = ".part"

// Download is a place that keeps what is read of another one.
type Download struct {
	dir  string
	from store.Place
	kept store.Place
	into store.Writer

	mu     sync.Mutex // guards what follows
	sealed map[string]release.Artifact
	busy   map[string]*sync.Mutex // by name: each is fetched once
	known  map[string]bool        // whole; true where it was so before this run
}

// Open prepares a download from a place into a directory that is not there
// yet, or is empty.
func Open(dir string, from store.Place) (*Download, error) {
	dir = filepath.Clean(dir)
	switch entries, err := os.ReadDir(dir); {
	case err == nil && len(entries) > 0:
		return nil, verdict.Refuse(verdict.Usage, dir, "it is not empty; name a directory that is not there yet")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, verdict.Wrap(verdict.Usage, dir, err)
	}
	d := &Download{dir: dir, from: from, busy: map[string]*sync.Mutex{}, known: map[string]bool{}}
	var err error
	if d.kept, err = store.Open(dir+Suffix, nil); err != nil {
		return nil, err
	}
	d.into, err = store.OpenWriter(dir + Suffix)
	return d, err
}

// URI implements [store.Place]: it is that of the place that is read.
func (d *Download) URI() string { return d.from.URI() }

// List implements [store.Place].
func (d *Download) List(ctx context.Context) ([]store.Object, error) { return d.from.List(ctx) }

// Taken is how many files were taken over from an earlier run.
func (d *Download) Taken() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, before := range d.known {
		if before {
			n++
		}
	}
	return n
}

// Open implements [store.Place]. What the manifest lists is kept when it was
// read to its end; the rest is only read.
func (d *Download) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	if name == releasemanifest.Name {
		return d.manifest(ctx)
	}
	d.mu.Lock()
	a, listed := d.sealed[name]
	busy := d.busy[name]
	if listed && busy == nil {
		busy = &sync.Mutex{}
		d.busy[name] = busy
	}
	d.mu.Unlock()
	if !listed {
		return d.from.Open(ctx, name)
	}
	busy.Lock()
	if d.whole(ctx, a) {
		busy.Unlock()
		return d.kept.Open(ctx, name)
	}
	d.learn(name, false)
	body, size, err := d.from.Open(ctx, name)
	if err != nil {
		busy.Unlock()
		return nil, 0, err
	}
	return d.keep(ctx, name, body, busy.Unlock), size, nil
}

// manifest fetches the manifest, always: there may be a newer one.
func (d *Download) manifest(ctx context.Context) (io.ReadCloser, int64, error) {
	raw, err := store.Read(ctx, d.from, releasemanifest.Name, verify.MaxBundle)
	if err != nil {
		return nil, 0, err
	}
	if err := d.into.Put(ctx, releasemanifest.Name, int64(len(raw)), bytes.NewReader(raw), store.PutOptions{}); err != nil {
		return nil, 0, err
	}
	sealed := map[string]release.Artifact{}
	if said, err := verify.Read(raw); err == nil { // what cannot be read is refused by who verifies it
		if s, err := intoto.Parse(said.Payload); err == nil {
			if m, err := release.ReadManifest(s, d.page(ctx)); err == nil {
				for _, a := range m.Files() {
					sealed[a.Name] = a
				}
				for _, p := range m.Pages {
					sealed[p.Name] = release.Artifact{Artifact: plan.Artifact{Name: p.Name}, Digests: p.Digests, Size: p.Size}
				}
			}
		}
	}
	if err := store.CheckNames(slices.Collect(maps.Keys(sealed))); err != nil {
		return nil, 0, fmt.Errorf("downloading to %q: %w", d.dir, err)
	}
	d.mu.Lock()
	d.sealed = sealed
	d.mu.Unlock()
	return d.kept.Open(ctx, releasemanifest.Name)
}

// Expect says what belongs to a release that has no manifest, with the bytes
// that somebody claims. A file of which nobody does is fetched by each run.
func (d *Download) Expect(claimed map[string]digest.Set) error {
	if err := store.CheckNames(slices.Collect(maps.Keys(claimed))); err != nil {
		return fmt.Errorf("downloading to %q: %w", d.dir, err)
	}
	sealed := make(map[string]release.Artifact, len(claimed))
	for name, set := range claimed {
		sealed[name] = release.Artifact{Artifact: plan.Artifact{Name: name}, Digests: set}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sealed = sealed
	return nil
}

// page opens a page of the manifest where it is read.
func (d *Download) page(ctx context.Context) release.Opener {
	return func(name string) ([]byte, error) { return store.Read(ctx, d.from, name, release.MaxPage) }
}

// whole reports whether a file lies there already with the bytes that the
// manifest lists.
func (d *Download) whole(ctx context.Context, a release.Artifact) bool {
	body, size, err := d.kept.Open(ctx, a.Name)
	if err != nil {
		return false
	}
	defer body.Close()
	if a.Size > 0 && size != a.Size || a.Digests.SHA256.IsZero() {
		return false
	}
	set, _, err := digest.Sum(body)
	if err != nil || !set.SHA256.Equal(a.Digests.SHA256) {
		return false
	}
	d.learn(a.Name, true)
	return true
}

// learn remembers of a file that is whole whether it was so before this run.
func (d *Download) learn(name string, before bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.known[name]; !known {
		d.known[name] = before
	}
}

// Finish leaves there the files that were verified, by their names, and
// nothing else, and shows them under the directory's own name.
func (d *Download) Finish(ctx context.Context, verified []string) error {
	there, err := d.kept.List(ctx)
	if err != nil {
		return err
	}
	if err := d.tidy(there, verified); err != nil {
		return err
	}
	if err := os.Remove(d.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d.unavailable("replacing", err)
	}
	if err := os.Rename(d.dir+Suffix, d.dir); err != nil {
		return d.unavailable("showing", err)
	}
	return nil
}

// tidy leaves there the files that were verified, and nothing else. When it
// returns nothing has the directory open: some systems rename none that is.
func (d *Download) tidy(there []store.Object, verified []string) error {
	root, err := os.OpenRoot(d.dir + Suffix)
	if err != nil {
		return d.unavailable("opening", err)
	}
	defer root.Close()
	found := map[string]bool{}
	for _, o := range there {
		if found[o.Name] = slices.Contains(verified, o.Name); found[o.Name] {
			continue
		}
		if err := root.Remove(o.Name); err != nil {
			return d.unavailable("tidying", err)
		}
	}
	for _, name := range verified {
		if !found[name] {
			return verdict.Refuse(verdict.InternalBug, name, "verified, and not kept")
		}
	}
	if err := removeEmpty(root, "."); err != nil {
		return d.unavailable("tidying", err)
	}
	return nil
}

func (d *Download) unavailable(op string, err error) error {
	return &verdict.UnavailableError{Place: d.dir, Op: op, Err: err}
}

// removeEmpty removes the directories below that hold nothing.
func removeEmpty(root *os.Root, dir string) error {
	f, err := root.Open(dir)
	if err != nil {
		return err
	}
	entries, err := f.ReadDir(-1)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		below := dir + "/" + e.Name()
		if err := removeEmpty(root, below); err != nil {
			return err
		}
		if rest, err := fs.ReadDir(root.FS(), filepath.ToSlash(filepath.Clean(below))); err == nil && len(rest) == 0 {
			if err := root.Remove(below); err != nil {
				return fmt.Errorf("removing %q: %w", below, err)
			}
		}
	}
	return nil
}
