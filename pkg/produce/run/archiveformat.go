package run

import (
	"archive/tar"
	"archive/zip"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// format writes the entries of an archive. All entries have the same time.
type format interface {
	io.Writer // the content of the last entry
	io.Closer
	entry(name string, mode, size int64) error // begins a regular file
	link(name, target string) error
}

func newFormat(w io.Writer, zipped bool, at time.Time) (format, error) {
	at = at.UTC().Truncate(time.Second)
	if zipped {
		return newZip(w, at), nil
	}
	packed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	return tarGz{Writer: tar.NewWriter(packed), packed: packed, at: at}, err
}

// tarGz is a tar archive, compressed by gzip.
type tarGz struct {
	*tar.Writer
	packed *gzip.Writer
	at     time.Time
}

// Close ends the archive.
func (t tarGz) Close() error { return errors.Join(t.Writer.Close(), t.packed.Close()) }

func (t tarGz) entry(name string, mode, size int64) error {
	return t.header(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: size})
}

func (t tarGz) link(name, target string) error {
	return t.header(tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777})
}

func (t tarGz) header(h tar.Header) error {
	h.ModTime, h.Format = t.at, tar.FormatPAX
	if err := t.WriteHeader(&h); err != nil {
		return fmt.Errorf("packing %q: %w", h.Name, err)
	}
	return nil
}

// zipped is a zip archive. It has no links: programs unpack them in different
// ways.
type zipped struct {
	*zip.Writer
	current io.Writer
	at      time.Time
}

func newZip(w io.Writer, at time.Time) *zipped {
	z := &zipped{Writer: zip.NewWriter(w), at: at}
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	return z
}

// Write writes content of the last entry.
func (z *zipped) Write(p []byte) (int, error) { return z.current.Write(p) }

func (z *zipped) entry(name string, mode, _ int64) (err error) {
	h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: z.at}
	h.SetMode(fs.FileMode(mode))
	if z.current, err = z.CreateHeader(h); err != nil {
		return fmt.Errorf("packing %q: %w", name, err)
	}
	return nil
}

func (z *zipped) link(name, _ string) error {
	return fmt.Errorf("packing %q: a zip archive has no links", name)
}
