package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// stagingPrefix begins the name of a file that is being written, beside its
// final name. On Linux, a file has no name while it is written, and this one
// only to replace another, if the file system can do that. One left by a crash
// is listed like any other object: a place must have no name under which files
// can be hidden.
const stagingPrefix = ".waybill-tmp-"

// IsStaging reports whether a file of this name is incomplete: it is being
// written, or its writer was killed. The sole writer of a directory may remove
// the remains of earlier runs.
func IsStaging(name string) bool { return strings.HasPrefix(path.Base(name), stagingPrefix) }

// Put implements [Writer].
func (d *dir) Put(ctx context.Context, name string, size int64, r io.Reader, opts PutOptions) error {
	if err := CheckName(name); err != nil {
		return fmt.Errorf("writing at %q: %w", d.uri, err)
	}
	op := "writing " + quote(name)
	if err := os.MkdirAll(d.path, 0o755); err != nil {
		return d.unavailable(op, err)
	}
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return d.unavailable(op, err)
	}
	defer root.Close()
	switch _, err := d.lstat(root, name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case opts.IfAbsent:
		return fmt.Errorf("%s at %q: %w", op, d.uri, ErrExists)
	}
	parent := path.Dir(name)
	if err := makeDirs(root, parent); err != nil {
		return d.unavailable(op, err)
	}
	in, err := root.OpenFile(parent, os.O_RDONLY|openNoWait, 0) // no link leads out of the directory
	if err != nil {
		return d.unavailable(op, err)
	}
	defer in.Close()
	staged := path.Join(parent, stagingPrefix+rand.Text())
	defer func() { _ = root.Remove(staged) }() // already renamed on success
	f, link := d.unnamed(in)
	if link == nil {
		if f, err = root.OpenFile(staged, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644); err != nil {
			return fmt.Errorf("%s: %w", op, d.unavailable("staging", err))
		}
	}
	defer f.Close()
	if err := d.stage(ctx, f, &counted{r: r, want: size}); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if link == nil {
		err = f.Close()
	}
	if err == nil {
		err = publish(root, link, staged, name, opts.IfAbsent)
	}
	if err == nil {
		err = flush(in)
	}
	switch {
	case opts.IfAbsent && errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s at %q: %w", op, d.uri, ErrExists)
	case err != nil:
		return d.unavailable(op, err)
	}
	return nil
}

// stage writes all of r to a new file and makes it durable.
func (d *dir) stage(ctx context.Context, f *os.File, r *counted) error {
	r.stop = ctx.Err
	_, err := io.CopyBuffer(struct{ io.Writer }{f}, r, make([]byte, 256<<10))
	if r.err != nil {
		return r.err // the source failed, not this place
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return d.unavailable("staging", err)
	}
	return nil
}

// publish gives the staged file its name, atomically. A link, unlike a rename,
// fails if the name exists. link gives a file its first name, and is nil for a
// file that has one.
func publish(root *os.Root, link func(string) error, staged, name string, ifAbsent bool) error {
	if link != nil {
		err := link(path.Base(name))
		if ifAbsent || !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := link(path.Base(staged)); err != nil {
			return err
		}
	}
	if ifAbsent {
		return root.Link(staged, name)
	}
	return root.Rename(staged, name)
}

// Move moves a file into a directory under a name, atomically and durably,
// replacing any file with that name. Both must be on one file system.
func Move(path, dir, name string) error {
	if err := CheckName(name); err != nil {
		return fmt.Errorf("moving %q: %w", path, err)
	}
	if err := move(path, dir, name); err != nil {
		return fmt.Errorf("moving %q to %q: %w", path, name, err)
	}
	return nil
}

func move(from, dir, name string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close(), makeDirs(root, path.Dir(name))); err != nil {
		return err
	}
	parent, err := root.Open(path.Dir(name)) // no link leads out of the directory
	if err != nil {
		return err
	}
	defer parent.Close()
	if err := os.Rename(from, filepath.Join(dir, filepath.FromSlash(name))); err != nil {
		return err
	}
	return flush(parent)
}

// makeDirs creates the directory at name and its parents, durably.
func makeDirs(root *os.Root, name string) error {
	if name == "." {
		return nil
	}
	if err := makeDirs(root, path.Dir(name)); err != nil {
		return err
	}
	switch err := root.Mkdir(name, 0o755); {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	parent, err := root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer parent.Close()
	return flush(parent)
}

// counted fails if the number of bytes differs from the declared one, keeps the
// source's own error apart from those of the destination, and stops when the
// context ends.
type counted struct {
	r    io.Reader
	want int64 // -1 if unknown
	seen int64
	stop func() error
	err  error
}

// Read implements [io.Reader].
func (c *counted) Read(p []byte) (int, error) {
	if err := c.stop(); err != nil {
		c.err = err
		return 0, err
	}
	n, err := c.r.Read(p)
	c.seen += int64(n)
	if c.want >= 0 && (c.seen > c.want || err == io.EOF && c.seen != c.want) {
		err = &digest.SizeError{Want: c.want, Got: c.seen}
	}
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}
