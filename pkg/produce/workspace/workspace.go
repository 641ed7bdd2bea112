// Package workspace is the directory in which one release is made: its files
// and images as they will be published, the log of each step, and a record of
// its identity, so a second run finds the work of the first, and no run mixes
// two releases.
//
//	w, err := workspace.Create(dir, workspace.Identity{…})
//	w.Files()   // the files to publish
//	w.Images()  // the images to publish, as an OCI layout
//
// The record is a hint for people and for resuming; plan and verified
// provenance alone decide what is published.
//
// Other projects should not import this package: it changes without notice.
package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Identity says which release a workspace is for.
type Identity struct {
	Name       string          `json:"name"`
	Version    version.Version `json:"version"`
	Commit     git.Commit      `json:"commit"`
	Plan       digest.Digest   `json:"plan"`
	Invocation string          `json:"invocation"`
	// Trace is the run that began the release, and the trace in which the
	// release was made. It is written once; workspaces of older versions have
	// none.
	Trace trace.IDs `json:"trace,omitzero"`
}

// Workspace is an open workspace.
type Workspace struct {
	dir      string
	identity Identity
	files    store.Place
	writer   store.Writer
	images   *registry.Layout
}

const identityName = "release.json"

// maxIdentity limits the file with the identity, in bytes.
const maxIdentity = 64 << 10

// Create opens the workspace of a release, creating it if needed. It refuses
// a workspace of another release, commit or plan, because nothing in it would
// fit.
func Create(dir string, id Identity) (*Workspace, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making workspace: %w", err)
	}
	held, err := fitting(dir, id)
	if errors.Is(err, fs.ErrNotExist) {
		if err := writeIdentity(dir, id); err != nil {
			return nil, err
		}
		return open(dir, id)
	}
	if err != nil {
		return nil, err
	}
	return open(dir, held)
}

// Check refuses a directory with another release, as [Create] does, and
// creates nothing.
func Check(dir string, id Identity) error {
	_, err := fitting(dir, id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// fitting is the identity of a workspace, which must be that of id.
func fitting(dir string, id Identity) (Identity, error) {
	held, err := readIdentity(filepath.Join(dir, identityName))
	if err != nil {
		return Identity{}, err
	}
	if held.Name == id.Name && held.Version == id.Version {
		if err := held.Commit.CheckSame(id.Commit); err != nil {
			return Identity{}, err
		}
	}
	if held.Name != id.Name || held.Version != id.Version || held.Commit.Commit != id.Commit.Commit || held.Plan != id.Plan {
		return Identity{}, verdict.Refuse(verdict.Usage, dir, "the state directory has %s %s of commit %.12s; use another --state, or remove this one",
			held.Name, held.Version, held.Commit.Commit)
	}
	// The manifest names repository and ref as the provenance of each step does.
	if was, is := held.Commit.Repository+"@"+held.Commit.AskedFor(), id.Commit.Repository+"@"+id.Commit.AskedFor(); was != is {
		return Identity{}, verdict.Refuse(verdict.Usage, dir, "the state directory has %s %s from another repository or ref of the same commit", held.Name, held.Version).Differ(is, was).
			Advise("name the source as it was named when the build began, or use another --state")
	}
	return held, nil
}

// Is reports whether a directory is a workspace.
func Is(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, identityName))
	return err == nil
}

// Open opens an existing workspace.
func Open(dir string) (*Workspace, error) {
	id, err := readIdentity(filepath.Join(dir, identityName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, verdict.Refuse(verdict.Usage, dir, "no release has been started here; run `waybill build` or `waybill stage` first").
			Advise("begin with waybill stage VERSION, or give the directory of the release with --state")
	}
	if err != nil {
		return nil, err
	}
	return open(dir, id)
}

func open(dir string, id Identity) (*Workspace, error) {
	w := &Workspace{dir: dir, identity: id}
	files := filepath.Join(dir, "files")
	if err := os.MkdirAll(files, 0o755); err != nil {
		return nil, fmt.Errorf("making workspace: %w", err)
	}
	var err error
	if w.files, err = store.Open(files, nil); err != nil {
		return nil, err
	}
	if w.writer, err = store.OpenWriter(files); err != nil {
		return nil, err
	}
	w.images, err = registry.OpenLayout(filepath.Join(dir, "images"))
	return w, err
}

// Identity says which release the workspace is for.
func (w *Workspace) Identity() Identity { return w.identity }

// Dir is the directory of the workspace.
func (w *Workspace) Dir() string { return w.dir }

// Files are the files to publish.
func (w *Workspace) Files() store.Place { return w.files }

// OpenFile opens one of the files for random access. The caller closes it.
func (w *Workspace) OpenFile(name string) (*os.File, error) {
	root, err := os.OpenRoot(filepath.Join(w.dir, "files"))
	if err != nil {
		return nil, fmt.Errorf("opening workspace: %w", err)
	}
	defer root.Close()
	return root.Open(filepath.FromSlash(name))
}

// Writer writes the files to publish.
func (w *Workspace) Writer() store.Writer { return w.writer }

// Images are the images to publish.
func (w *Workspace) Images() *registry.Layout { return w.images }

// Journal is the path of the release's journal.
func (w *Workspace) Journal() string { return filepath.Join(w.dir, "journal.jsonl") }

// Signatures is the journal of signatures that are not stored in their final
// place yet.
func (w *Workspace) Signatures() string { return filepath.Join(w.dir, "signatures.jsonl") }

// Log is the path of a step's log.
func (w *Workspace) Log(instance string) string {
	return filepath.Join(w.dir, "logs", instance+".log")
}

// Fetched is the directory for downloads from which the release is built.
func (w *Workspace) Fetched() string { return filepath.Join(w.dir, "fetched") }

// Scratch creates an empty directory for the work of one step. The caller
// removes it.
func (w *Workspace) Scratch(instance string) (string, error) {
	root := filepath.Join(w.dir, "work")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", fmt.Errorf("making scratch space: %w", err)
	}
	dir, err := os.MkdirTemp(root, instance+"-")
	if err != nil {
		return "", fmt.Errorf("making scratch space: %w", err)
	}
	return filepath.Abs(dir)
}

// Sweep removes what a killed run left: its scratch directories, incomplete
// files, and images with a truncated part. Only one run at a time uses a
// workspace: see [Workspace.Journal].
func (w *Workspace) Sweep(ctx context.Context) error {
	entries, err := os.ReadDir(filepath.Join(w.dir, "work"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sweeping scratch space: %w", err)
	}
	for _, e := range entries {
		// Files of a step that cannot be removed do not stop later runs: each
		// run has its own directory.
		if err := sandbox.Remove(ctx, filepath.Join(w.dir, "work", e.Name())); err != nil && ctx.Err() != nil {
			return fmt.Errorf("sweeping scratch space: %w", err)
		}
	}
	for _, part := range []string{"files", "images", "drafts", "attached", "revisions", "."} {
		err := filepath.WalkDir(filepath.Join(w.dir, part), func(path string, d fs.DirEntry, err error) error {
			if err == nil && part == "." && d.IsDir() && path != w.dir {
				return fs.SkipDir
			}
			if err == nil && d.Type().IsRegular() && store.IsStaging(filepath.ToSlash(path)) {
				err = os.Remove(path)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("sweeping %s: %w", part, err)
		}
	}
	if err := w.images.Mend(ctx); err != nil {
		return fmt.Errorf("sweeping images: %w", err)
	}
	return nil
}

// Adopt moves a file from a scratch directory to the files, under a name. It
// is not read again, so no other process may have it open. It becomes
// readable for everyone and writable only for us, and survives a power
// failure.
func (w *Workspace) Adopt(name, path string) error {
	if err := store.CheckName(name); err != nil {
		return fmt.Errorf("adopting %q: %w", name, err)
	}
	if err := takeOwnership(path); err != nil {
		return fmt.Errorf("adopting %q: %w", name, err)
	}
	return store.Move(path, filepath.Join(w.dir, "files"), name)
}

// takeOwnership takes ownership of a file from the account that wrote it.
func takeOwnership(path string) error {
	if os.Geteuid() == 0 {
		if err := os.Lchown(path, 0, os.Getegid()); err != nil {
			return err
		}
	}
	if err := os.Chmod(path, 0o644); err != nil {
		return err
	}
	if err := removeAttributes(path); err != nil {
		return err
	}
	return os.Chtimes(path, fixedTime(), fixedTime())
}

// fixedTime is the modification time of every output: the earliest time that
// all archive formats support.
func fixedTime() time.Time { return time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC) }

// SavePlan stores the plan for people to read.
func (w *Workspace) SavePlan(p plan.Plan) error {
	raw, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding plan: %w", err)
	}
	return w.Keep("plan.json", append(raw, '\n'))
}

// checkParts refuses a workspace that has a link, a pipe or a device at its top.
// Another account may have made the workspace, and such a part leads the reading,
// writing and sweeping of this one elsewhere.
func checkParts(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() && !e.IsDir() {
			return store.NotAFile(dir, e.Name(), e.Type())
		}
	}
	return nil
}

func readIdentity(path string) (id Identity, err error) {
	if err := checkParts(filepath.Dir(path)); err != nil {
		return Identity{}, err
	}
	file, err := os.Open(path)
	if err != nil {
		return Identity{}, err
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxIdentity+1))
	if err != nil {
		return Identity{}, err
	}
	if err := strictjson.Unmarshal(raw, &id, strictjson.MaxSize(maxIdentity)); err != nil {
		return Identity{}, verdict.Wrap(verdict.ConfigParse, path, err).
			Advise("remove " + filepath.Dir(path) + " or use another --state, and build again: this file identifies the release in the directory")
	}
	return id, nil
}

func writeIdentity(dir string, id Identity) error {
	raw, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", identityName, err)
	}
	if err := writeDurably(dir, identityName, append(raw, '\n')); err != nil {
		return fmt.Errorf("writing %s: %w", identityName, err)
	}
	return nil
}

// Keep writes a file that later commands need and that is not part of the
// release. After a power failure either the old or the complete new file is
// there.
func (w *Workspace) Keep(name string, raw []byte) error { return writeDurably(w.dir, name, raw) }

// writeDurably writes a file below a directory durably, ignoring cancellation.
func writeDurably(dir, name string, raw []byte) error {
	to, err := store.OpenWriter(filepath.Clean(dir))
	if err != nil {
		return err
	}
	return to.Put(context.Background(), name, int64(len(raw)), bytes.NewReader(raw), store.PutOptions{})
}
