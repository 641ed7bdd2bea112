// Package download keeps the files of a release while they are verified, and
// makes them visible only after the release was accepted.
//
// A [Download] is a place: the verifier reads the release through it, and every
// file that was read to its end is kept in a directory beside the requested one,
// of the same name with [Suffix]. [Download.Finish] renames the directory of the
// verified files to the requested name, all at once. A run that ends before that
// shows nothing; the next run reuses every file whose bytes the manifest lists,
// and fetches the others again.
//
//	d, err := download.Open("release", "v1.2.3", place)
//	defer d.Close()
//	decided := gate.Decide(ctx, gate.Request{Files: d, …})
//	kept, err := d.Finish(ctx, files)
//
// The directory with [Suffix] must be made by this package: it belongs to this
// account, has a marker with the release and the place, and contains no links;
// any other is refused with DOWNLOAD_DIR. One process uses it at a time
// (DOWNLOAD_BUSY). Only files that this run wrote are ever removed from it.
//
// A manifest whose names would clash in one directory on any system is refused
// on all systems: see [store.CheckNames].
//
// The list of complete files comes from a manifest that is not yet verified. It
// decides which files are fetched again, never which are accepted.
//
// Other projects should not import this package: it changes without notice.
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
	"path"
	"path/filepath"
	"slices"
	"sync"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Suffix marks the directory of a download that is not yet accepted.
const Suffix = ".part"

// Download is a place that keeps a copy of what is read from another place.
type Download struct {
	dir  string // absolute
	from store.Place
	held *lockedDir
	kept store.Place
	into store.Writer

	mu     sync.Mutex // guards the fields below
	sealed map[string]manifest.Artifact
	busy   map[string]*sync.Mutex // by name, so that each file is fetched once
	known  map[string]bool        // files with the right digest; true if an earlier run wrote it
}

// Open prepares a download of a release from a place into a directory that does
// not exist or is empty. The caller must close it.
func Open(dir, release string, from store.Place) (*Download, error) {
	dir, err := target(dir)
	if err != nil {
		return nil, err
	}
	held, err := lockDir(dir+Suffix, marker{Kind: markerKind, Release: release, Place: from.URI()})
	if err != nil {
		return nil, err
	}
	d := &Download{dir: dir, from: from, held: held, busy: map[string]*sync.Mutex{}, known: map[string]bool{}}
	files := filepath.Join(held.path, filesName)
	if d.kept, err = store.Open(files, nil); err == nil {
		d.into, err = store.OpenWriter(files)
	}
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	return d, nil
}

// target returns the absolute path of a directory that a download may create.
func target(dir string) (string, error) {
	refuse := func(format string, args ...any) (string, error) {
		return "", verdict.Refuse(verdict.Usage, dir, format, args...)
	}
	path, err := filepath.Abs(dir)
	if err != nil || dir == "" {
		return refuse("not a path of a directory")
	}
	if base := filepath.Base(filepath.Clean(dir)); base == "." || base == ".." || filepath.Dir(path) == path {
		return refuse("a download creates its directory: name one that does not exist")
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return path, nil
	case err != nil:
		return "", verdict.Wrap(verdict.Usage, dir, err)
	case !info.IsDir():
		return refuse("the path is %s; name a directory that does not exist", kind(info))
	}
	switch entries, err := os.ReadDir(path); {
	case err != nil:
		return "", verdict.Wrap(verdict.Usage, dir, err)
	case len(entries) > 0:
		return refuse("the directory is not empty; name one that does not exist")
	}
	return path, nil
}

// Close releases the directory for another process.
func (d *Download) Close() error { return d.held.Close() }

// URI implements [store.Place]: the address of the place that is read.
func (d *Download) URI() string { return d.from.URI() }

// List implements [store.Place].
func (d *Download) List(ctx context.Context) ([]store.Object, error) { return d.from.List(ctx) }

// Open implements [store.Place]. A file that the manifest lists is kept once it
// was read to its end; other files are only read.
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

// manifest always fetches the manifest: there may be a newer one.
func (d *Download) manifest(ctx context.Context) (io.ReadCloser, int64, error) {
	raw, err := store.Read(ctx, d.from, releasemanifest.Name, verify.MaxBundle)
	if err != nil {
		return nil, 0, err
	}
	d.learn(releasemanifest.Name, false)
	if err := d.into.Put(ctx, releasemanifest.Name, int64(len(raw)), bytes.NewReader(raw), store.PutOptions{}); err != nil {
		return nil, 0, err
	}
	sealed := map[string]manifest.Artifact{}
	if said, err := verify.Read(raw); err == nil { // the verifier refuses an unreadable one
		if s, err := intoto.Parse(said.Payload); err == nil {
			if m, err := manifest.ReadManifest(s, func(name string) ([]byte, error) { return store.Read(ctx, d.from, name, manifest.MaxPage) }); err == nil {
				for _, a := range m.Files() {
					sealed[a.Name] = a
				}
				for _, p := range m.Pages {
					sealed[p.Name] = manifest.Artifact{Artifact: plan.Artifact{Name: p.Name}, Digests: p.Digests, Size: p.Size}
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

// Expect names the files of a release without a manifest, with their claimed
// digests. A file without one is fetched by each run.
func (d *Download) Expect(claimed map[string]digest.Set) error {
	if err := store.CheckNames(slices.Collect(maps.Keys(claimed))); err != nil {
		return fmt.Errorf("downloading to %q: %w", d.dir, err)
	}
	sealed := make(map[string]manifest.Artifact, len(claimed))
	for name, set := range claimed {
		sealed[name] = manifest.Artifact{Artifact: plan.Artifact{Name: name}, Digests: set}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sealed = sealed
	return nil
}

// whole reports whether the directory already has a file with the listed bytes.
func (d *Download) whole(ctx context.Context, a manifest.Artifact) bool {
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

// learn records whether a file with the right digest was there before this run.
func (d *Download) learn(name string, before bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.known[name]; !known {
		d.known[name] = before
	}
}

// File is a verified file.
type File struct {
	Name string
	// Program makes the copy executable.
	Program bool
}

// Kept describes the result of a download.
type Kept struct {
	Dir    string
	Files  int
	Bytes  int64
	Before int // how many of the files an earlier run wrote
	// Left counts files in the directory with [Suffix] that were not accepted
	// and that this run did not write. They were left there.
	Left int
}

// Finish moves the verified files, and only those, to the directory's own name.
func (d *Download) Finish(ctx context.Context, verified []File) (Kept, error) {
	there, err := d.kept.List(ctx)
	if err != nil {
		return Kept{}, err
	}
	kept, err := d.tidy(there, verified)
	if err != nil {
		return Kept{}, err
	}
	if err := os.Remove(d.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Kept{}, d.unavailable("replacing", err)
	}
	if err := os.Rename(filepath.Join(d.held.path, filesName), d.dir); err != nil {
		return Kept{}, d.unavailable("showing", err)
	}
	return kept, d.held.remove()
}

// tidy keeps the verified files, removes the other files that this run wrote,
// and moves aside the files that it did not write.
func (d *Download) tidy(there []store.Object, verified []File) (Kept, error) {
	kept := Kept{Dir: d.dir}
	programs := make(map[string]bool, len(verified))
	for _, f := range verified {
		programs[f.Name] = f.Program
	}
	files, err := d.held.root.OpenRoot(filesName)
	if err != nil {
		return kept, d.unavailable("opening", err)
	}
	defer files.Close() // some systems cannot rename an open directory
	found := map[string]bool{}
	for _, o := range there {
		program, wanted := programs[o.Name]
		switch {
		case wanted && program:
			err = files.Chmod(o.Name, 0o755)
		case wanted:
		case d.wrote(o.Name):
			err = files.Remove(o.Name)
		default:
			kept.Left++
			err = d.setAside(o.Name)
		}
		if err != nil {
			return kept, d.unavailable("tidying", err)
		}
		if wanted {
			found[o.Name] = true
			kept.Files, kept.Bytes = kept.Files+1, kept.Bytes+o.Size
			if !d.wrote(o.Name) {
				kept.Before++
			}
		}
	}
	for _, f := range verified {
		if !found[f.Name] {
			return kept, verdict.Refuse(verdict.InternalBug, f.Name, "verified, but not kept")
		}
	}
	if err := removeEmpty(files, "."); err != nil {
		return kept, d.unavailable("tidying", err)
	}
	return kept, nil
}

// setAside moves a file that this run did not write out of the directory that
// will be renamed.
func (d *Download) setAside(name string) error {
	at := path.Join(leftName, name)
	if err := d.held.root.MkdirAll(path.Dir(at), 0o755); err != nil {
		return err
	}
	return d.held.root.Rename(path.Join(filesName, name), at)
}

// wrote reports whether this run wrote a file.
func (d *Download) wrote(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, known := d.known[name]
	return known && !before
}

// Discard removes the refused files that this run wrote, so that no refused
// file stays under its own name.
func (d *Download) Discard(refused func(name string) bool) (failed error) {
	d.mu.Lock()
	names := slices.Collect(maps.Keys(d.known))
	d.mu.Unlock()
	for _, name := range names {
		if !refused(name) {
			continue
		}
		if err := d.held.root.Remove(path.Join(filesName, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, d.unavailable("removing", err))
		}
	}
	return failed
}

func (d *Download) unavailable(op string, err error) error {
	return &verdict.UnavailableError{Place: d.dir, Op: op, Err: err}
}

// removeEmpty removes empty directories, recursively.
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
