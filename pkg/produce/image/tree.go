package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Names with a meaning in a layer.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
	reserved = ".wh..wh." // of AUFS, for which layers were invented
)

// maxFollow limits the links that one name may lead through, as in Linux.
const maxFollow = 40

// unpacker is a directory into which layers are written.
type unpacker struct {
	root    *os.Root
	bytes   atomic.Int64 // remaining, for all layers
	entries int          // remaining
	names   int          // remaining bytes of their names
	dropped int

	// Of the current layer: the paths that it has written, which its own
	// whiteouts do not remove, and the directories that were resolved
	// already.
	written  map[string]bool
	resolved map[string]string

	here   *os.Root // the directory hereAt of the last entry
	hereAt string
}

func (u *unpacker) close() error {
	if u.here != nil {
		return errors.Join(u.here.Close(), u.root.Close())
	}
	return u.root.Close()
}

func (u *unpacker) entry(h *tar.Header, body io.Reader) error {
	if u.entries--; u.entries < 0 {
		return verdict.Refuse(verdict.Limit, "layers", "more than %d entries", maxEntries)
	}
	if u.names -= len(h.Name) + len(h.Linkname); u.names < 0 {
		return verdict.Refuse(verdict.Limit, "layers", "the names of the entries have more than %d bytes", maxNames)
	}
	name, err := inside(h.Name)
	if err != nil {
		return err
	}
	if name == "" || h.Typeflag == tar.TypeXGlobalHeader || isReserved(name) {
		return nil
	}
	at, err := u.locate(name)
	if err != nil {
		return err
	}
	if base := path.Base(name); strings.HasPrefix(base, whiteout) {
		return u.hide(at, base)
	}
	if err := u.write(h, at, body); err != nil {
		return fmt.Errorf("unpacking %s: %w", bounded(h.Name), err)
	}
	return nil
}

// inside is a name relative to the root of the image.
func inside(name string) (string, error) {
	if slices.Contains(strings.Split(name, "/"), "..") {
		return "", verdict.Refuse(verdict.Path, bounded(name), "the name of an entry contains \"..\"")
	}
	if len(name) > 4096 || strings.ContainsRune(name, 0) {
		return "", verdict.Refuse(verdict.Path, bounded(name), "the name of an entry is too long or contains a zero byte")
	}
	return path.Clean("/" + name)[1:], nil
}

// isReserved reports whether a name is for AUFS only, and has no meaning here.
func isReserved(name string) bool {
	return slices.ContainsFunc(strings.Split(name, "/"), func(elem string) bool {
		return strings.HasPrefix(elem, reserved) && elem != opaque
	})
}

// locate is the location of a name after following the links in its directory
// as the image would, with dir as the root. The last element is not followed.
func (u *unpacker) locate(name string) (string, error) {
	dir, base := path.Split(name)
	at, known := u.resolved[dir]
	if !known {
		var err error
		if at, err = u.follow(name, dir); err != nil {
			return "", err
		}
		u.resolved[dir] = at
	}
	return path.Join(at, base), nil
}

// openPath is a directory and its parents, each open, so entering a
// subdirectory costs the same at any depth.
type openPath struct {
	dirs  []*os.Root // from the root of the image
	names []string   // of all but the root
}

func (w *openPath) here() *os.Root { return w.dirs[len(w.dirs)-1] }

func (w *openPath) at() string { return path.Join(append([]string{"."}, w.names...)...) }

// down enters a directory.
func (w *openPath) down(name string) error {
	next, err := w.here().OpenRoot(name)
	if err == nil {
		w.dirs, w.names = append(w.dirs, next), append(w.names, name)
	}
	return err
}

// up leaves n directories, but never the root.
func (w *openPath) up(n int) (err error) {
	for range min(n, len(w.names)) {
		err = errors.Join(err, w.here().Close())
		w.dirs, w.names = w.dirs[:len(w.dirs)-1], w.names[:len(w.names)-1]
	}
	return err
}

// follow walks to a directory, creating missing ones.
func (u *unpacker) follow(name, dir string) (at string, err error) {
	w := &openPath{dirs: []*os.Root{u.root}}
	defer func() { err = errors.Join(err, w.up(len(w.names))) }()
	rest := strings.Split(dir, "/")
	for links := 0; len(rest) > 0 && err == nil; {
		elem := rest[0]
		rest = rest[1:]
		switch elem {
		case "", ".":
			continue
		case "..":
			err = w.up(1)
			continue
		}
		if len(w.names) == maxDepth {
			return "", verdict.Refuse(verdict.Limit, bounded(name), "an entry of the image is more than %d directories deep", maxDepth)
		}
		var info fs.FileInfo
		info, err = w.here().Lstat(elem)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err = w.here().Mkdir(elem, 0o755); err == nil {
				err = w.down(elem)
			}
			u.written[w.at()] = true
		case err == nil && info.IsDir():
			err = w.down(elem)
		case err == nil && info.Mode().Type() == fs.ModeSymlink:
			if links++; links > maxFollow {
				return "", verdict.Refuse(verdict.Path, bounded(name), "the path of an entry follows more than %d links", maxFollow)
			}
			var target string
			if target, err = w.here().Readlink(elem); path.IsAbs(target) {
				err = errors.Join(err, w.up(len(w.names)))
			}
			rest = append(strings.Split(target, "/"), rest...)
		case err == nil:
			return "", verdict.Refuse(verdict.Path, bounded(name), "the path of an entry leads through a file")
		}
	}
	return w.at(), err
}

// hide removes what earlier layers have written: one name, or everything in a
// directory.
func (u *unpacker) hide(at, base string) error {
	dir := path.Dir(at)
	clear(u.resolved)
	u.hereAt = "" // it may be what is removed
	if base == opaque {
		return u.hideBelow(dir)
	}
	name := strings.TrimPrefix(base, whiteout)
	if name == "" || name == "." || name == ".." {
		return verdict.Refuse(verdict.Path, bounded(at), "a whiteout of the image has no name to remove")
	}
	return u.hideOne(path.Join(dir, name))
}

func (u *unpacker) hideBelow(dir string) error {
	entries, err := fs.ReadDir(u.root.FS(), dir)
	if err != nil {
		return err
	}
	return slice.Check(entries, func(e fs.DirEntry) error { return u.hideOne(path.Join(dir, e.Name())) })
}

func (u *unpacker) hideOne(at string) error {
	info, err := u.root.Lstat(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		if err := u.hideBelow(at); err != nil {
			return err
		}
		left, err := fs.ReadDir(u.root.FS(), at)
		if err != nil || len(left) > 0 {
			return err
		}
	}
	if u.written[at] {
		return nil
	}
	return u.root.Remove(at)
}

// write writes one entry, replacing an existing one. Only a directory keeps
// an existing directory.
func (u *unpacker) write(h *tar.Header, at string, body io.Reader) error {
	dir, err := u.openDir(path.Dir(at))
	if err != nil {
		return err
	}
	err = u.create(dir, h, at, body)
	if errors.Is(err, fs.ErrExist) {
		if info, err := dir.Lstat(path.Base(at)); err == nil && info.IsDir() && h.Typeflag == tar.TypeDir {
			return dir.Chmod(path.Base(at), mode(h))
		}
		if err := u.remove(dir, at); err != nil {
			return err
		}
		err = u.create(dir, h, at, body)
	}
	u.written[at] = true
	return err
}

// openDir opens the directory of an entry, and keeps it for the next one:
// entries usually come directory by directory.
func (u *unpacker) openDir(dir string) (*os.Root, error) {
	if u.here != nil && u.hereAt == dir {
		return u.here, nil
	}
	next, err := u.root.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	if u.here != nil {
		err = u.here.Close()
	}
	u.here, u.hereAt = next, dir
	return next, err
}

// remove removes an existing entry, and resolved paths through it.
func (u *unpacker) remove(dir *os.Root, at string) error {
	clear(u.resolved)
	return dir.RemoveAll(path.Base(at))
}

// create creates one entry in its directory. If the name exists, the error is
// [fs.ErrExist], and nothing of body was read.
func (u *unpacker) create(dir *os.Root, h *tar.Header, at string, body io.Reader) error {
	name := path.Base(at)
	switch h.Typeflag {
	case tar.TypeDir:
		if err := dir.Mkdir(name, 0o755); err != nil {
			return err
		}
		return dir.Chmod(name, mode(h))
	case tar.TypeReg, tar.TypeGNUSparse:
		return u.file(dir, h, name, body)
	case tar.TypeSymlink:
		return dir.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return u.link(h, at)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		u.dropped++
		return u.remove(dir, at)
	}
	return verdict.Refuse(verdict.FileType, bounded(h.Name), "an entry of the image is of the unknown type %q", h.Typeflag)
}

// mode is the permitted part of an entry's mode: whoever unpacks can read it,
// and programs have no set-user-ID bits.
func mode(h *tar.Header) fs.FileMode {
	bits := fs.FileMode(h.Mode) & 0o777
	if h.Typeflag == tar.TypeDir {
		return bits | 0o700
	}
	return bits | 0o400
}

func (u *unpacker) file(dir *os.Root, h *tar.Header, name string, body io.Reader) error {
	if h.Size > u.bytes.Load() {
		return verdict.Refuse(verdict.Limit, bounded(h.Name), "more than %d bytes without compression", int64(maxUnpacked))
	}
	f, err := dir.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, body)
	return errors.Join(err, f.Chmod(mode(h)), f.Close(), dir.Chtimes(name, h.ModTime, h.ModTime))
}

// link creates a second name for a file of the image.
func (u *unpacker) link(h *tar.Header, at string) error {
	name, err := inside(h.Linkname)
	if err != nil {
		return err
	}
	target, err := u.locate(name)
	if err != nil {
		return err
	}
	info, err := u.root.Lstat(target)
	if err != nil || info.IsDir() {
		return verdict.Refuse(verdict.Path, bounded(h.Linkname), "the target of a hard link is not a file")
	}
	return u.root.Link(target, at)
}
