package store

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
	"sync"
)

const tapeBlock = 512

// tape is a tar archive whose regular files are the objects. It is read where
// it lies: what is wanted is found through an index of the headers, which is
// made once, of an archive that must stay the same from then on.
type tape struct {
	path string // absolute
	uri  string

	mu     sync.Mutex // owns what follows
	looked os.FileInfo
	index  map[string]span
}

// span is where the bytes of an object are.
type span struct{ offset, size int64 }

// isTape reports whether a path names an archive and no directory.
func isTape(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && strings.HasSuffix(path, ".tar")
}

func openTape(path string) (*tape, error) {
	d, err := openDir(path)
	if err != nil {
		return nil, err
	}
	return &tape{path: d.path, uri: "tar" + strings.TrimPrefix(d.uri, "file")}, nil
}

// URI implements [Place].
func (t *tape) URI() string { return t.uri }

func (t *tape) unavailable(op string, err error) error {
	return &UnavailableError{Place: t.uri, Op: op, Err: err}
}

// List implements [Place].
func (t *tape) List(ctx context.Context) ([]Object, error) {
	f, index, err := t.open(ctx, "listing")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	objects := make([]Object, 0, len(index))
	for name, at := range index {
		objects = append(objects, Object{Name: name, Size: at.size})
	}
	sort.Slice(objects, func(i, j int) bool { return objects[i].Name < objects[j].Name })
	if err := checkListed(objects); err != nil {
		return nil, fmt.Errorf("listing %q: %w", t.uri, err)
	}
	return objects, nil
}

// Open implements [Place].
func (t *tape) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	if err := CheckName(name); err != nil {
		return nil, 0, fmt.Errorf("reading at %q: %w", t.uri, err)
	}
	op := "reading " + quote(name)
	f, index, err := t.open(ctx, op)
	if err != nil {
		return nil, 0, err
	}
	at, found := index[name]
	if !found {
		_ = f.Close()
		return nil, 0, fmt.Errorf("%s at %q: %w", op, t.uri, ErrNotFound)
	}
	section := struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, at.offset, at.size), f}
	return &body{ReadCloser: section, place: t.uri, op: op}, at.size, nil
}

// open opens the archive and answers what is in it.
func (t *tape) open(ctx context.Context, op string) (*os.File, map[string]span, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, t.unavailable(op, err)
	}
	f, err := os.Open(t.path)
	if err != nil {
		return nil, nil, t.unavailable(op, err)
	}
	index, err := t.read(ctx, f)
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, index, nil
}

// read makes the index, or takes the one of the same file from before.
func (t *tape) read(ctx context.Context, f *os.File) (map[string]span, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, t.unavailable("listing", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.index != nil {
		if !os.SameFile(t.looked, info) || t.looked.Size() != info.Size() || !t.looked.ModTime().Equal(info.ModTime()) {
			return nil, t.unavailable("listing", errors.New("the archive changed while it was read"))
		}
		return t.index, nil
	}
	if t.index, err = t.scan(ctx, f); err != nil {
		return nil, err
	}
	t.looked = info
	return t.index, nil
}

// scan reads the headers. Go's reader seeks over what is between them, so the
// file stands at the bytes of an entry after its header was read.
func (t *tape) scan(ctx context.Context, f *os.File) (map[string]span, error) {
	index, entries, end := map[string]span{}, tar.NewReader(f), int64(0)
	for {
		if err := ctx.Err(); err != nil {
			return nil, t.unavailable("listing", err)
		}
		header, err := entries.Next()
		if err == io.EOF {
			return index, t.whole(f, end)
		}
		if err != nil {
			return nil, t.unavailable("listing", fmt.Errorf("%w: a place is an archive that is not compressed", err))
		}
		at, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, t.unavailable("listing", err)
		}
		end = at + (header.Size+tapeBlock-1)/tapeBlock*tapeBlock
		name := strings.TrimPrefix(header.Name, "./")
		if header.Typeflag == tar.TypeDir {
			if name = strings.TrimSuffix(name, "/"); name == "" || name == "." {
				continue // the root itself
			}
		}
		if err := CheckName(name); err != nil {
			return nil, fmt.Errorf("listing %q: %w", t.uri, err)
		}
		switch _, sparse := header.PAXRecords["GNU.sparse.major"]; {
		case header.Typeflag == tar.TypeDir:
			continue
		case header.Typeflag != tar.TypeReg || sparse:
			return nil, &FileTypeError{Place: t.uri, Name: name, Mode: header.FileInfo().Mode() | os.ModeIrregular}
		case len(index) >= MaxObjects:
			return nil, &LimitError{Place: t.uri, Limit: MaxObjects}
		}
		if _, twice := index[name]; twice {
			return nil, t.unavailable("listing", fmt.Errorf("object %q is there twice", name))
		}
		index[name] = span{at, header.Size}
	}
}

// whole demands an end of the archive and nothing after it, where nobody would
// look.
func (t *tape) whole(f *os.File, end int64) error {
	if _, err := f.Seek(end, io.SeekStart); err != nil {
		return t.unavailable("listing", err)
	}
	rest, zeros := bufio.NewReader(f), 0
	for {
		b, err := rest.ReadByte()
		switch {
		case err == io.EOF && zeros >= 2*tapeBlock:
			return nil
		case err == io.EOF:
			return t.unavailable("listing", errors.New("the archive has no end: it was cut off"))
		case err != nil:
			return t.unavailable("listing", err)
		case b != 0:
			return t.unavailable("listing", errors.New("something follows the end of the archive"))
		}
		zeros++
	}
}
