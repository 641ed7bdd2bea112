package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/unpack"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// tape is a tar archive whose regular files are the objects. Every program must
// unpack it to exactly these objects: see package unpack. Objects are read in
// place, by an index of the headers that is made once; the archive must not
// change afterwards.
type tape struct {
	path string // absolute
	uri  string
	dir  string // in a kit, the objects are those below it, as "files/"

	mu     sync.Mutex // guards the fields below
	looked os.FileInfo
	index  map[string]span
	frames *unpack.Frames // of a compressed kit; else nil
	older  *tape          // of which a kit is a delta; else nil
	chain  int            // how many deltas are before it
}

// kitSuffix ends the name of a kit, which is an archive: see package kit.
const kitSuffix = ".kit"

// span locates the bytes of an object: in the older kit, or from an offset here.
type span struct {
	offset, size int64
	older        bool
}

// splitTape splits the path of an archive, or of a directory in a kit, and reports
// whether there is such an archive.
func splitTape(path string) (file, dir string, is bool) {
	file = path
	if kit, below, in := strings.Cut(path, kitSuffix+"/"); in && !strings.HasSuffix(path, ".tar") {
		file, dir = kit+kitSuffix, below
	}
	info, err := os.Stat(file)
	return file, dir, err == nil && info.Mode().IsRegular() && (strings.HasSuffix(file, ".tar") || strings.HasSuffix(file, kitSuffix))
}

func openTape(path string) (*tape, error) {
	file, dir, _ := splitTape(path)
	d, err := openDir(file)
	if err != nil {
		return nil, err
	}
	return &tape{path: d.path, uri: "tar" + strings.TrimPrefix(d.uri, "file"), dir: dir}, nil
}

// URI implements [Place].
func (t *tape) URI() string { return t.uri }

func (t *tape) unavailable(op string, err error) error {
	return &verdict.UnavailableError{Place: t.uri, Op: op, Err: err}
}

// List implements [Place].
func (t *tape) List(ctx context.Context) ([]Object, error) {
	f, _, index, err := t.open(ctx, "listing")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	objects := make([]Object, 0, len(index))
	for name, at := range index {
		if name, below := strings.CutPrefix(name, t.dir); below {
			objects = append(objects, Object{Name: name, Size: at.size})
		}
	}
	sort.Slice(objects, func(i, j int) bool { return objects[i].Name < objects[j].Name })
	return objects, nil
}

// Open implements [Place].
func (t *tape) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	if err := CheckName(name); err != nil {
		return nil, 0, fmt.Errorf("reading at %q: %w", t.uri, err)
	}
	op := "reading " + quote(name)
	f, archive, index, err := t.open(ctx, op)
	if err != nil {
		return nil, 0, err
	}
	at, found := index[t.dir+name]
	if at.older {
		_ = f.Close()
		return t.older.Open(ctx, t.dir+name)
	}
	if !found {
		_ = f.Close()
		return nil, 0, fmt.Errorf("%s at %q: %w", op, t.uri, ErrNotFound)
	}
	section := struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(archive, at.offset, at.size), f}
	return reporting(section, t.uri, op), at.size, nil
}

// open opens the file, and returns the archive in it and its index.
func (t *tape) open(ctx context.Context, op string) (*os.File, io.ReaderAt, map[string]span, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, nil, t.unavailable(op, err)
	}
	f, err := os.Open(t.path)
	if err != nil {
		return nil, nil, nil, t.unavailable(op, err)
	}
	archive, index, err := t.read(ctx, f)
	if err != nil {
		_ = f.Close()
		return nil, nil, nil, err
	}
	return f, archive, index, nil
}

// read makes the index, or reuses that of the same file.
func (t *tape) read(ctx context.Context, f *os.File) (archive *io.SectionReader, index map[string]span, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, nil, t.unavailable("listing", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.index == nil && strings.HasSuffix(t.path, kitSuffix) {
		if t.frames, err = unpack.OpenFrames(f, info.Size()); err != nil {
			return nil, nil, t.faulty(err)
		}
	}
	if archive = io.NewSectionReader(f, 0, info.Size()); t.frames != nil {
		archive = t.frames.On(f)
	}
	if t.index != nil {
		if !os.SameFile(t.looked, info) || t.looked.Size() != info.Size() || !t.looked.ModTime().Equal(info.ModTime()) {
			return nil, nil, t.unavailable("listing", errors.New("the archive changed while it was read"))
		}
		return archive, t.index, nil
	}
	if index, err = t.scan(ctx, archive); err != nil {
		return nil, nil, err
	}
	if _, is := index[deltaName]; is && strings.HasSuffix(t.path, kitSuffix) {
		if err := t.add(ctx, archive, index); err != nil {
			return nil, nil, err
		}
	}
	t.index, t.looked = index, info
	return archive, t.index, nil
}

// scan reads the headers and skips the content between them.
func (t *tape) scan(ctx context.Context, archive *io.SectionReader) (map[string]span, error) {
	index, names := map[string]span{}, []string{}
	err := unpack.New().Place(archive, archive.Size(), func(e unpack.Entry, _ io.Reader) error {
		if err := ctx.Err(); err != nil {
			return t.unavailable("listing", err)
		}
		if e.Name == "." {
			return nil
		}
		if err := CheckName(e.Name); err != nil {
			return err
		}
		if e.Kind != unpack.File {
			return nil
		}
		if len(index) >= MaxObjects {
			return TooMany(t.uri)
		}
		index[e.Name] = span{offset: e.Offset, size: e.Size}
		names = append(names, e.Name)
		return nil
	})
	if err == nil {
		err = CheckNames(names)
	}
	if err != nil {
		return nil, t.faulty(err)
	}
	return index, nil
}

// faulty names the archive in an error of its content.
func (t *tape) faulty(err error) error {
	var refusal *verdict.Error
	switch {
	case errors.As(err, &refusal):
		return verdict.Refuse(refusal.Finding.Code, cmp.Or(refusal.Finding.Subject, t.uri), "%s (read in %s)", refusal.Finding.Message, t.uri)
	case verdict.OutcomeOf(err) == verdict.Refused:
		return fmt.Errorf("listing %q: %w", t.uri, err)
	}
	return t.unavailable("listing", err)
}

// deltaName is the file that makes a kit a delta. Its words are the name of the older
// kit, which lies beside it; the digest of the manifest there; and the names of the files
// that are read there. It is no object of the place. Of maxChain, each may be of the next.
const deltaName, maxChain = "delta", 8

// add adds to the index what a delta has in the older kit. Neither is trusted: who
// judges the place judges what both have together.
func (t *tape) add(ctx context.Context, archive io.ReaderAt, index map[string]span) error {
	at := index[deltaName]
	delete(index, deltaName)
	raw, err := io.ReadAll(io.NewSectionReader(archive, at.offset, min(at.size, MaxObjects<<6)))
	words := strings.Fields(string(raw))
	if err != nil || len(words) < 2 || CheckName(words[0]) != nil || strings.Contains(words[0], "/") || !strings.HasSuffix(words[0], kitSuffix) {
		return verdict.Refuse(verdict.ArchiveParse, deltaName, "want the name of the older kit, the digest of its manifest, and names of its files")
	}
	path, subject := filepath.Join(filepath.Dir(t.path), words[0]), filepath.Base(t.path)
	if _, _, is := splitTape(path); !is || t.chain == maxChain {
		return verdict.Refuse("KIT_BASE", subject, "it is a delta of %s, which is not beside it; or more than %d deltas follow each other", words[0], maxChain)
	}
	if t.older, err = openTape(path); err != nil {
		return err
	}
	t.older.chain = t.chain + 1
	manifest, err := Read(ctx, t.older, "files/"+releasemanifest.Name, 64<<20)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if got := digest.Of(digest.SHA256, manifest).String(); got != words[1] {
		return &verdict.Error{Finding: verdict.Find("KIT_BASE", subject, "it is a delta of %s, and the kit beside it with that name has another manifest", words[0]).Differ(words[1], got)}
	}
	for _, name := range words[2:] {
		had, is := t.older.index[name]
		switch _, twice := index[name]; {
		case !is:
			return verdict.Refuse("KIT_BASE", subject, "it is a delta of %s, which lacks %s", words[0], name)
		case twice:
			return verdict.Refuse(verdict.ArchiveTwice, name, "the delta has it twice")
		}
		index[name] = span{size: had.size, older: true}
	}
	return CheckNames(slices.Collect(maps.Keys(index)))
}
