package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

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

// openArchive finds the files of a tar archive. One name for two files is
// refused: who reads the first and who reads the last would see two images.
func openArchive(r io.ReaderAt, size int64) (*archiveFS, error) {
	a := &archiveFS{r: r, files: map[string]span{}, aliases: map[string]string{}}
	whole := io.NewSectionReader(r, 0, size)
	entries := tar.NewReader(whole)
	for n := 0; ; n++ {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return a, nil
		}
		if err != nil {
			return nil, verdict.Refuse(verdict.FileType, "archive", "it is no tar archive, or a compressed one: %v", err)
		}
		if n >= maxArchived {
			return nil, verdict.Refuse(verdict.Limit, "archive", "more than %d entries", maxArchived)
		}
		at, err := whole.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		if err := a.note(h, span{at, h.Size}); err != nil {
			return nil, err
		}
		if h.Size > size-at {
			return nil, verdict.Refuse(verdict.FileType, bounded(h.Name), "the archive ends within it")
		}
	}
}

func (a *archiveFS) note(h *tar.Header, s span) error {
	name, err := inside(h.Name)
	if err != nil {
		return err
	}
	if _, held := a.files[name]; held || a.aliases[name] != "" {
		return verdict.Refuse(verdict.Path, bounded(h.Name), "the archive has two entries of this name")
	}
	switch h.Typeflag {
	case tar.TypeReg:
		a.files[name] = s
	case tar.TypeSymlink:
		a.aliases[name] = path.Join(path.Dir(name), h.Linkname)
	case tar.TypeLink:
		a.aliases[name] = path.Clean(h.Linkname)
	case tar.TypeDir, tar.TypeXGlobalHeader:
	default:
		return verdict.Refuse(verdict.FileType, bounded(h.Name), "an entry of an image archive is a file, a directory or a link")
	}
	return nil
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
