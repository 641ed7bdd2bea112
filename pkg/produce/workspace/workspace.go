// Package workspace is the directory in which one release comes into being:
// its files and images as they will be published, the log of each step, and a
// record of what it is, so that a second run finds the first one's work and no
// run mixes two releases.
//
//	w, err := workspace.Create(dir, workspace.Identity{…})
//	w.Files()   // the file place to be
//	w.Images()  // the registry to be, as an OCI layout
//
// The record is a hint for people and for resuming; what is published is
// decided from plan and verified provenance alone.
package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// Identity says which release a workspace holds.
type Identity struct {
	Name       string          `json:"name"`
	Version    version.Version `json:"version"`
	Commit     git.Commit      `json:"commit"`
	Plan       digest.Digest   `json:"plan"`
	Invocation string          `json:"invocation"`
	// Trace is the run that began the release, and the trace in which the release
	// came to be. It is written once; a workspace from before has none, and gets
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

// Create opens the workspace of a release, making it if it is not there. A
// workspace that holds another release, commit or plan is refused: nothing of
// it would fit.
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

// Check refuses a directory that holds another release, as [Create] does, and
// makes nothing.
func Check(dir string, id Identity) error {
	_, err := fitting(dir, id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// fitting is the release that a workspace holds, if that is id.
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
		return Identity{}, verdict.Refuse(verdict.Usage, dir, "it holds %s %s of commit %.12s; give another --state, or remove it",
			held.Name, held.Version, held.Commit.Commit)
	}
	return held, nil
}

// Is reports whether a release was begun in a directory.
func Is(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, identityName))
	return err == nil
}

// Open opens a workspace that was made before.
func Open(dir string) (*Workspace, error) {
	id, err := readIdentity(filepath.Join(dir, identityName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, verdict.Refuse(verdict.Usage, dir, "no release has been started here; run `waybill build` or `waybill stage` first").
			Advise("begin with waybill stage VERSION, or name the directory of the release with --state")
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

// Identity says which release the workspace holds.
func (w *Workspace) Identity() Identity { return w.identity }

// Dir is where the workspace is.
func (w *Workspace) Dir() string { return w.dir }

// Files is the file place to be.
func (w *Workspace) Files() store.Place { return w.files }

// OpenFile opens one file of the place to be for reading at random. The
// caller closes it.
func (w *Workspace) OpenFile(name string) (*os.File, error) {
	root, err := os.OpenRoot(filepath.Join(w.dir, "files"))
	if err != nil {
		return nil, fmt.Errorf("opening workspace: %w", err)
	}
	defer root.Close()
	return root.Open(filepath.FromSlash(name))
}

// Writer writes into the file place to be.
func (w *Workspace) Writer() store.Writer { return w.writer }

// Images is the registry to be.
func (w *Workspace) Images() *registry.Layout { return w.images }

// Journal is where the journal of the release is kept.
func (w *Workspace) Journal() string { return filepath.Join(w.dir, "journal.jsonl") }

// Signatures is where signatures are kept from when they are made until they
// are where they belong.
func (w *Workspace) Signatures() string { return filepath.Join(w.dir, "signatures.jsonl") }

// Log is where the log of a step is kept.
func (w *Workspace) Log(instance string) string {
	return filepath.Join(w.dir, "logs", instance+".log")
}

// Fetched is where things of the network are kept that the release is built
// from.
func (w *Workspace) Fetched() string { return filepath.Join(w.dir, "fetched") }

// Scratch makes an empty directory for the work of one step. The caller
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

// Sweep removes what a run that was killed left behind: its scratch work, files
// that it had not written to the end, and images of which a part is cut off. Only one run at a time has a
// workspace: see [Workspace.Journal].
func (w *Workspace) Sweep(ctx context.Context) error {
	entries, err := os.ReadDir(filepath.Join(w.dir, "work"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sweeping scratch space: %w", err)
	}
	for _, e := range entries {
		// What a step left and cannot be removed stops no later run: each has a
		// directory of its own.
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

// Adopt moves a file of the scratch space to the files under a name, as it is:
// nothing is read again, so nothing else may have it open. It becomes ours to
// write, and everybody's to read, and a power cut takes nothing of it.
func (w *Workspace) Adopt(name, path string) error {
	if err := store.CheckName(name); err != nil {
		return fmt.Errorf("adopting %q: %w", name, err)
	}
	if err := own(path); err != nil {
		return fmt.Errorf("adopting %q: %w", name, err)
	}
	return store.Move(path, filepath.Join(w.dir, "files"), name)
}

// own takes a file over from the account that wrote it.
func own(path string) error {
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

// fixedTime is when every output says that it was written: the first time that
// all archive formats have.
func fixedTime() time.Time { return time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC) }

// SavePlan keeps the plan beside the work, for people to read.
func (w *Workspace) SavePlan(p plan.Plan) error {
	raw, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding plan: %w", err)
	}
	return w.Keep("plan.json", append(raw, '\n'))
}

func readIdentity(path string) (Identity, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return Identity{}, err
	}
	var id Identity
	if err := strictjson.Unmarshal(raw, &id); err != nil {
		return Identity{}, verdict.Wrap(verdict.ConfigParse, path, err).
			Advise("remove " + filepath.Dir(path) + " or give another --state, and build again: this file says which release is there")
	}
	return id, nil
}

func writeIdentity(dir string, id Identity) error {
	raw, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", identityName, err)
	}
	if err := keep(dir, identityName, append(raw, '\n')); err != nil {
		return fmt.Errorf("writing %s: %w", identityName, err)
	}
	return nil
}

// Keep writes a file of the workspace that a later command needs and that is none
// of the release. After a power cut the old one is there or the whole new one.
func (w *Workspace) Keep(name string, raw []byte) error { return keep(w.dir, name, raw) }

// keep writes a file below a directory durably. It is not given up halfway.
func keep(dir, name string, raw []byte) error {
	to, err := store.OpenWriter(filepath.Clean(dir))
	if err != nil {
		return err
	}
	return to.Put(context.Background(), name, int64(len(raw)), bytes.NewReader(raw), store.PutOptions{})
}
