package download

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/filelock"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The names in the directory with [Suffix].
const (
	markerName = "download.json" // says which download this is
	lockName   = "lock"          // locked by the process that downloads
	filesName  = "files"         // becomes the requested directory
	leftName   = "left"          // files that no run of this download wrote
)

// Limits on what is read before the directory is known to be ours.
const (
	maxMarker = 16 << 10
	maxDepth  = 64
	maxFiles  = 1 << 20
)

// markerKind identifies a directory of this package.
const markerKind = "waybill-download/v1"

// marker says which release is downloaded, and from where.
type marker struct {
	Kind    string `json:"kind"`
	Release string `json:"release"`
	Place   string `json:"place"`
}

// lockedDir is a directory of this package that this process has locked.
type lockedDir struct {
	path string
	root *os.Root
	lock *os.File
}

// errGone says that the directory was removed while it was being opened.
var errGone = errors.New("the directory was removed")

// lockDir creates the directory at path, or reopens that of an earlier run of the
// same download, and locks it.
func lockDir(path string, m marker) (*lockedDir, error) {
	for range 3 {
		if err := create(path, m); err != nil {
			return nil, &verdict.UnavailableError{Place: path, Op: "making", Err: err}
		}
		h, err := takeOver(path, m)
		if !errors.Is(err, errGone) {
			return h, err
		}
	}
	return nil, busy(path, "another process")
}

// create makes the complete directory under a temporary name first, so that it
// never lacks its marker. What exists already stays as it is.
func create(path string, m marker) (err error) {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	parent := filepath.Dir(path)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	made, err := os.MkdirTemp(parent, "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(made)) }()
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(made, markerName), append(raw, '\n'), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(made, lockName), nil, 0o600); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(made, filesName), 0o755); err != nil {
		return err
	}
	err = os.Rename(made, path)
	if _, absent := os.Lstat(path); absent == nil { // another run may have made it
		return nil
	}
	return err
}

// takeOver opens and locks an existing directory, which must be ours.
func takeOver(path string, m marker) (_ *lockedDir, err error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errGone
	case err != nil:
		return nil, &verdict.UnavailableError{Place: path, Op: "looking at", Err: err}
	case !info.IsDir():
		return nil, foreign(path, "the path is "+kind(info)+", not a directory made by a download")
	case !ours(info):
		return nil, foreign(path, "the directory belongs to another account")
	}
	h := &lockedDir{path: path}
	if h.root, err = os.OpenRoot(path); err != nil {
		return nil, &verdict.UnavailableError{Place: path, Op: "opening", Err: err}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	if opened, _ := h.root.Stat("."); !os.SameFile(info, opened) { // nil is not the same
		return nil, errGone
	}
	if err := h.identify(m); err != nil {
		return nil, err
	}
	if err := h.acquire(); err != nil {
		return nil, err
	}
	if again, _ := os.Lstat(path); !os.SameFile(info, again) {
		return nil, errGone
	}
	if err := h.root.Mkdir(filesName, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, h.unavailable("making", err)
	}
	if info, err := h.root.Lstat(filesName); err != nil || !info.IsDir() {
		return nil, foreign(filepath.Join(path, filesName), "not a directory")
	}
	return h, h.inspect()
}

// identify requires the marker of this very download.
func (h *lockedDir) identify(want marker) error {
	raw, err := h.read(markerName)
	var got marker
	if err == nil {
		err = strictjson.Unmarshal(raw, &got)
	}
	switch {
	case err != nil || got.Kind != markerKind:
		if h.isEmpty() { // an earlier run was killed while removing its directory
			return errors.Join(errGone, h.root.RemoveAll(lockName), os.Remove(h.path))
		}
		return foreign(h.path, "the directory has no marker of a download, so this program did not make it")
	case got != want:
		return &verdict.Error{Finding: verdict.Find("DOWNLOAD_DIR", h.path, "the directory belongs to another download").
			Differ(want.Release+" from "+want.Place, got.Release+" from "+got.Place)}
	}
	return nil
}

// isEmpty reports whether the directory is empty, or has only the lock.
func (h *lockedDir) isEmpty() bool {
	entries, err := fs.ReadDir(h.root.FS(), ".")
	return err == nil && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() != lockName })
}

// read reads a small regular file of ours.
func (h *lockedDir) read(name string) ([]byte, error) {
	info, err := h.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fs.ErrInvalid
	}
	f, err := h.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxMarker))
}

// acquire locks the directory for this process until Close.
func (h *lockedDir) acquire() error {
	info, err := h.root.Lstat(lockName)
	if err != nil || !info.Mode().IsRegular() {
		return foreign(h.path, "the lock in the directory is not a regular file")
	}
	if h.lock, err = h.root.OpenFile(lockName, os.O_RDWR, 0); err != nil {
		return h.unavailable("locking", err)
	}
	free, err := filelock.Try(h.lock)
	if err != nil {
		return h.unavailable("locking", err)
	}
	if !free {
		raw, _ := h.read(lockName) // without a name it is another process
		return busy(h.path, cmp.Or(strings.TrimSpace(string(bytes.ToValidUTF8(raw, nil))), "another process"))
	}
	host, _ := os.Hostname() // only for the message
	if err := h.lock.Truncate(0); err != nil {
		return h.unavailable("locking", err)
	}
	if _, err := h.lock.WriteAt(fmt.Appendf(nil, "process %d on %s\n", os.Getpid(), cmp.Or(host, "this machine")), 0); err != nil {
		return h.unavailable("locking", err)
	}
	return nil
}

// inspect refuses anything that a download does not write: links, files with a
// second name, files of other accounts. It removes what a killed run left half
// written.
func (h *lockedDir) inspect() error {
	seen := 0
	return fs.WalkDir(h.root.FS(), filesName, func(name string, e fs.DirEntry, err error) error {
		at := filepath.Join(h.path, filepath.FromSlash(name))
		if err != nil {
			return h.unavailable("looking at", err)
		}
		info, err := h.root.Lstat(filepath.FromSlash(name))
		if err != nil {
			return h.unavailable("looking at", err)
		}
		seen++
		switch {
		case seen > maxFiles:
			return foreign(h.path, fmt.Sprintf("the directory has more than %d files", maxFiles))
		case strings.Count(name, "/") > maxDepth:
			return foreign(h.path, fmt.Sprintf("the directory is more than %d levels deep", maxDepth))
		case !ours(info):
			return foreign(at, "the file belongs to another account")
		case e.IsDir():
			return nil
		case !info.Mode().IsRegular():
			return foreign(at, "this is "+kind(info)+", which a download never writes")
		case links(info) != 1:
			return foreign(at, "the file has a second hard link, which a download never makes")
		case store.IsStaging(path.Base(name)):
			if err := h.root.Remove(filepath.FromSlash(name)); err != nil {
				return h.unavailable("removing", err)
			}
		}
		return nil
	})
}

// Close releases the directory for another process.
func (h *lockedDir) Close() (err error) {
	if h == nil {
		return nil
	}
	if h.lock != nil {
		err = h.lock.Close()
	}
	if h.root != nil {
		err = errors.Join(err, h.root.Close())
	}
	return err
}

// remove removes the directory, unless it has files that were set aside.
func (h *lockedDir) remove() error {
	if _, err := h.root.Lstat(leftName); err == nil {
		return nil
	}
	if err := h.root.Remove(markerName); err != nil {
		return h.unavailable("removing", err)
	}
	if err := h.root.Remove(lockName); err != nil {
		return h.unavailable("removing", err)
	}
	if err := h.Close(); err != nil {
		return h.unavailable("closing", err)
	}
	h.lock, h.root = nil, nil
	if err := os.Remove(h.path); err != nil {
		return h.unavailable("removing", err)
	}
	return nil
}

func (h *lockedDir) unavailable(op string, err error) error {
	return &verdict.UnavailableError{Place: h.path, Op: op, Err: err}
}

// foreign refuses a directory or file that this program did not make.
func foreign(subject, why string) error {
	return verdict.Refuse("DOWNLOAD_DIR", subject, "%s", why)
}

func busy(path, who string) error {
	return verdict.Refuse("DOWNLOAD_BUSY", path, "%s is downloading into it", who)
}

func kind(info fs.FileInfo) string {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return "a file"
	case mode&fs.ModeSymlink != 0:
		return "a link"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	}
	return "not a regular file"
}
