package image

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"github.com/waybill-release/waybill/pkg/unpack"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// Bounds of an archive that is imported.
const (
	maxArchived = 1 << 16 // entries
	maxAliases  = 8       // links from one name to the file
)

// archiveFS is a tar archive as a file system that is read at random: where
// each file stands was noted once, and nothing is unpacked.
type archiveFS struct {
	r       io.ReaderAt
	files   map[string]span
	aliases map[string]string // links to other names in the archive
}

// span is where the bytes of a file stand.
type span struct{ at, size int64 }

// openArchive finds the files of a tar archive, which must be one that every
// program unpacks alike: see package unpack.
func openArchive(r io.ReaderAt, size int64) (*archiveFS, error) {
	a := &archiveFS{r: r, files: map[string]span{}, aliases: map[string]string{}}
	walker := unpack.New()
	return a, walker.Index(r, size, func(e unpack.Entry, _ io.Reader) error {
		if walker.Entries() > maxArchived {
			return verdict.Refuse(verdict.Limit, "archive", "more than %d entries", maxArchived)
		}
		switch e.Kind {
		case unpack.File:
			a.files[e.Name] = span{e.Offset, e.Size}
		case unpack.SymLink:
			a.aliases[e.Name] = path.Join(path.Dir(e.Name), e.Target)
		case unpack.HardLink:
			a.aliases[e.Name] = e.Target
		}
		return nil
	})
}

// Open implements [fs.FS].
func (a *archiveFS) Open(name string) (fs.File, error) {
	at := name
	for range maxAliases {
		if s, ok := a.files[at]; ok {
			return &archived{SectionReader: io.NewSectionReader(a.r, s.at, s.size), name: path.Base(name)}, nil
		}
		at = a.aliases[at]
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// archived is an open file of an archive.
type archived struct {
	*io.SectionReader
	name string
}

// Stat implements [fs.File].
func (f *archived) Stat() (fs.FileInfo, error) { return f, nil }

// Close implements [fs.File].
func (f *archived) Close() error { return nil }

// Name implements [fs.FileInfo].
func (f *archived) Name() string { return f.name }

// Mode implements [fs.FileInfo].
func (f *archived) Mode() fs.FileMode { return 0o444 }

// ModTime implements [fs.FileInfo].
func (f *archived) ModTime() time.Time { return time.Time{} }

// IsDir implements [fs.FileInfo].
func (f *archived) IsDir() bool { return false }

// Sys implements [fs.FileInfo].
func (f *archived) Sys() any { return nil }

// whole reads a small file of an archive.
func (a *archiveFS) whole(name string) ([]byte, error) {
	f, err := a.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err == nil && len(raw) > maxDocument {
		return nil, verdict.Refuse(verdict.Limit, bounded(name), "a document of more than %d bytes", maxDocument)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s of the archive: %w", bounded(name), err)
	}
	return raw, nil
}
