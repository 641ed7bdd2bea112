package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync/atomic"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Names with a meaning in a layer.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
	reserved = ".wh..wh." // of the file system that layers were invented for
)

// maxFollow is how many links one name may lead through, as in Linux.
const maxFollow = 40

// unpacker is a directory that layers are written into.
type unpacker struct {
	root    *os.Root
	bytes   atomic.Int64 // still to be written, of all layers
	entries int          // still to be read
	names   int          // bytes of their names
	dropped int

	// Of the layer at hand: the paths that it has put there, which its own
	// whiteouts do not hide, and the directories that were followed already.
	mine  map[string]bool
	known map[string]string

	here   *os.Root // the directory at hereAt, where the last entry went
	hereAt string
}

func (u *unpacker) close() error {
	if u.here != nil {
		return errors.Join(u.here.Close(), u.root.Close())
	}
	return u.root.Close()
}

// entry writes one entry of a layer.
func (u *unpacker) entry(h *tar.Header, body io.Reader) error {
	if u.entries--; u.entries < 0 {
		return verdict.Refuse(verdict.Limit, "layers", "more than %d entries", maxEntries)
	}
	if u.names -= len(h.Name) + len(h.Linkname); u.names < 0 {
		return verdict.Refuse(verdict.Limit, "layers", "the names of their entries have more than %d bytes", maxNames)
	}
	name, err := inside(h.Name)
	if err != nil {
		return err
	}
	if name == "" || h.Typeflag == tar.TypeXGlobalHeader || aside(name) {
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

// inside is a name below the top of the image, without a slash in front.
func inside(name string) (string, error) {
	for elem := range strings.SplitSeq(name, "/") {
		if elem == ".." {
			return "", verdict.Refuse(verdict.Path, bounded(name), "an entry of the image leads upwards")
		}
	}
	if len(name) > 4096 || strings.ContainsRune(name, 0) {
		return "", verdict.Refuse(verdict.Path, bounded(name), "an entry of the image has a name that no system takes")
	}
	return path.Clean("/" + name)[1:], nil
}

// aside reports whether a name belongs to what layers were invented for, and
// means nothing here.
func aside(name string) bool {
	for elem := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(elem, reserved) && elem != opaque {
			return true
		}
	}
	return false
}

// locate is where a name stands when the links on the way to it are followed
// as the image would, with the directory as its top. The last element is not
// followed.
func (u *unpacker) locate(name string) (string, error) {
	dir, base := path.Split(name)
	at, known := u.known[dir]
	if !known {
		var err error
		if at, err = u.follow(name, dir); err != nil {
			return "", err
		}
		u.known[dir] = at
	}
	return path.Join(at, base), nil
}

// way is a directory and those above it, each held open, so that a step into
// one costs the same however deep it is.
type way struct {
	dirs  []*os.Root // from the top of the image
	names []string   // of all but the top
}

func (w *way) here() *os.Root { return w.dirs[len(w.dirs)-1] }

func (w *way) at() string { return path.Join(append([]string{"."}, w.names...)...) }

// down goes into a directory.
func (w *way) down(name string) error {
	next, err := w.here().OpenRoot(name)
	if err == nil {
		w.dirs, w.names = append(w.dirs, next), append(w.names, name)
	}
	return err
}

// up leaves so many directories. The top stays the top.
func (w *way) up(n int) error {
	var err error
	for range min(n, len(w.names)) {
		err = errors.Join(err, w.here().Close())
		w.dirs, w.names = w.dirs[:len(w.dirs)-1], w.names[:len(w.names)-1]
	}
	return err
}

// follow walks to a directory, making what is missing on the way.
func (u *unpacker) follow(name, dir string) (at string, err error) {
	w := &way{dirs: []*os.Root{u.root}}
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
			return "", verdict.Refuse(verdict.Limit, bounded(name), "an entry of the image lies below more than %d directories", maxDepth)
		}
		var info fs.FileInfo
		info, err = w.here().Lstat(elem)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err = w.here().Mkdir(elem, 0o755); err == nil {
				err = w.down(elem)
			}
			u.mine[w.at()] = true
		case err == nil && info.IsDir():
			err = w.down(elem)
		case err == nil && info.Mode().Type() == fs.ModeSymlink:
			if links++; links > maxFollow {
				return "", verdict.Refuse(verdict.Path, bounded(name), "an entry of the image leads through more than %d links", maxFollow)
			}
			var target string
			if target, err = w.here().Readlink(elem); path.IsAbs(target) {
				err = errors.Join(err, w.up(len(w.names)))
			}
			rest = append(strings.Split(target, "/"), rest...)
		case err == nil:
			return "", verdict.Refuse(verdict.Path, bounded(name), "an entry of the image lies below a file")
		}
	}
	return w.at(), err
}

// hide removes what earlier layers have put there: one name, or everything in
// a directory.
func (u *unpacker) hide(at, base string) error {
	dir := path.Dir(at)
	clear(u.known)
	u.hereAt = "" // it may be what is hidden
	if base == opaque {
		return u.hideBelow(dir)
	}
	name := strings.TrimPrefix(base, whiteout)
	if name == "" || name == "." || name == ".." {
		return verdict.Refuse(verdict.Path, bounded(at), "a whiteout of the image hides no name")
	}
	return u.hideOne(path.Join(dir, name))
}

func (u *unpacker) hideBelow(dir string) error {
	entries, err := fs.ReadDir(u.root.FS(), dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := u.hideOne(path.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
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
	if u.mine[at] {
		return nil
	}
	return u.root.Remove(at)
}

// write puts one entry in the place of whatever has its name. Only a directory
// goes over a directory.
func (u *unpacker) write(h *tar.Header, at string, body io.Reader) error {
	dir, err := u.stand(path.Dir(at))
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
	u.mine[at] = true
	return err
}

// stand opens the directory that an entry goes into, and keeps it for the next
// one: entries come directory by directory.
func (u *unpacker) stand(dir string) (*os.Root, error) {
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

// remove makes room. What was followed through it is not known any more.
func (u *unpacker) remove(dir *os.Root, at string) error {
	clear(u.known)
	return dir.RemoveAll(path.Base(at))
}

// create makes one entry in the directory where it goes. If something has the
// name, that is [fs.ErrExist], and nothing of body was read.
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

// mode is what is left of an entry's mode: whoever unpacks can read it and go
// in, and nobody gains another's rights by running it.
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

// link gives a second name to a file of the image.
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
		return verdict.Refuse(verdict.Path, bounded(h.Linkname), "a hard link of the image leads to no file")
	}
	return u.root.Link(target, at)
}
