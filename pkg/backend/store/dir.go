package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// dir is a directory. Every operation opens the directory anew and stays inside
// it by [os.Root], even if links are created at the same time.
type dir struct {
	path    string // absolute
	uri     string
	unnamed func(in *os.File) (*os.File, func(name string) error) // unnamed, but for tests
}

func openDir(name string) (*dir, error) {
	if name == "" {
		return nil, usage("opening place: no path")
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, usage("opening place %q: %w", name, err)
	}
	slash := filepath.ToSlash(abs)
	if !strings.HasPrefix(slash, "/") {
		slash = "/" + slash
	}
	return &dir{path: abs, uri: "file://" + slash, unnamed: unnamed}, nil
}

// URI implements [Place].
func (d *dir) URI() string { return d.uri }

func (d *dir) unavailable(op string, err error) error {
	return &verdict.UnavailableError{Place: d.uri, Op: op, Err: err}
}

// List implements [Place].
func (d *dir) List(ctx context.Context) ([]Object, error) {
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return nil, d.unavailable("listing", err)
	}
	defer root.Close()
	l := lister{dir: d, root: root}
	if err := l.walk(ctx, "."); err != nil {
		return nil, err
	}
	sort.Slice(l.objects, func(i, j int) bool { return l.objects[i].Name < l.objects[j].Name })
	if err := checkListed(l.objects); err != nil {
		return nil, fmt.Errorf("listing %q: %w", d.uri, err)
	}
	return l.objects, nil
}

// lister collects the objects of one directory tree.
type lister struct {
	dir     *dir
	root    *os.Root
	objects []Object
}

func (l *lister) walk(ctx context.Context, at string) error {
	if err := ctx.Err(); err != nil {
		return l.dir.unavailable("listing", err)
	}
	f, err := l.root.Open(at)
	if err != nil {
		return l.dir.unavailable("listing", err)
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return l.dir.unavailable("listing", err)
	}
	return slice.Check(entries, func(entry os.DirEntry) error { return l.visit(ctx, f, path.Join(at, entry.Name()), entry) })
}

func (l *lister) visit(ctx context.Context, in *os.File, name string, entry fs.DirEntry) error {
	if err := CheckName(name); err != nil {
		return fmt.Errorf("listing %q: %w", l.dir.uri, err)
	}
	if entry.IsDir() {
		return l.walk(ctx, name)
	}
	if !entry.Type().IsRegular() {
		return NotAFile(l.dir.uri, name, entry.Type())
	}
	if len(l.objects) >= MaxObjects {
		return TooMany(l.dir.uri)
	}
	size, known := sizeIn(in, entry.Name())
	if !known {
		info, err := l.root.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && IsStaging(name):
			return nil // its writer removed it after the listing
		case err != nil:
			return l.dir.unavailable("listing", err)
		}
		size = info.Size()
	}
	l.objects = append(l.objects, Object{Name: name, Size: size})
	return nil
}

// Open implements [Place].
func (d *dir) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	if err := CheckName(name); err != nil {
		return nil, 0, fmt.Errorf("reading at %q: %w", d.uri, err)
	}
	op := "reading " + quote(name)
	if err := ctx.Err(); err != nil {
		return nil, 0, d.unavailable(op, err)
	}
	if f, info, is := quick(d.path, name); is {
		return reporting(f, d.uri, op), info.Size(), nil
	}
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return nil, 0, d.unavailable(op, err)
	}
	defer root.Close()
	f, info, err := d.openRegular(root, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, fmt.Errorf("%s at %q: %w", op, d.uri, ErrNotFound)
	case err != nil:
		return nil, 0, err
	}
	return reporting(f, d.uri, op), info.Size(), nil
}

// openRegular opens a plain file without following a link in any part of the
// name. If a part is swapped between the check and the opening, the opened file
// is not the checked one, which is detected; and it is inside the directory in
// any case.
func (d *dir) openRegular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	op := "reading " + quote(name)
	seen, err := d.lstat(root, name)
	if err != nil {
		return nil, nil, err
	}
	f, err := root.OpenFile(name, os.O_RDONLY|openNoWait, 0)
	if err != nil {
		return nil, nil, d.unavailable(op, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = d.unavailable(op, err)
	case !info.Mode().IsRegular():
		err = NotAFile(d.uri, name, info.Mode())
	case !os.SameFile(seen, info):
		err = d.unavailable(op, errors.New("the file was swapped while it was opened"))
	default:
		return f, info, nil
	}
	_ = f.Close()
	return nil, nil, err
}

// lstat returns the plain file at name, reached through plain directories only.
// A missing part is [fs.ErrNotExist].
func (d *dir) lstat(root *os.Root, name string) (info fs.FileInfo, err error) {
	for end := 0; end < len(name); end++ {
		next := strings.IndexByte(name[end:], '/')
		if next < 0 {
			next = len(name) - end
		}
		end += next
		part := name[:end]
		var err error
		info, err = root.Lstat(part)
		last := end == len(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fs.ErrNotExist
		case err != nil:
			return nil, d.unavailable("reading "+quote(name), err)
		case info.Mode()&fs.ModeType == fs.ModeDir && !last:
		case info.Mode().IsRegular() && last:
		case info.Mode().IsRegular():
			return nil, fs.ErrNotExist // "file/x": there is no such object
		default:
			return nil, NotAFile(d.uri, part, info.Mode())
		}
	}
	return info, nil
}
