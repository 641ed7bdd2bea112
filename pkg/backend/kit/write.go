package kit

import (
	"archive/tar"
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/unpack"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// entry is one file of a kit, and how to read it.
type entry struct {
	store.Object
	open func(ctx context.Context, name string) (io.ReadCloser, int64, error)
}

// Write writes the files of a place as a kit: the same files, the same bytes.
func Write(ctx context.Context, path string, from store.Place, compressed bool) error {
	objects, err := from.List(ctx)
	if err != nil {
		return err
	}
	var all []entry
	for _, o := range objects {
		all = append(all, entry{o, from.Open})
	}
	return write(ctx, path, all, compressed)
}

// CheckNew refuses a name that no new kit can have.
func CheckNew(path string) error {
	if _, err := os.Lstat(path); err == nil || !strings.HasSuffix(path, Suffix) {
		return verdict.Refuse(verdict.Usage, path, "want a file that does not exist, and whose name ends in %s", Suffix)
	}
	return nil
}

// write writes a kit, which appears when it is whole.
func write(ctx context.Context, path string, all []entry, compressed bool) error {
	if err := CheckNew(path); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".kit-")
	if err != nil {
		return &verdict.UnavailableError{Place: path, Op: "writing the kit", Err: err}
	}
	defer os.Remove(file.Name()) //nolint:errcheck // it is temporary
	defer file.Close()
	plain := bufio.NewWriterSize(file, unpack.FrameSize)
	if compressed {
		encoder, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true)) // the options are right
		plain = bufio.NewWriterSize(&packer{Writer: file, encoder: encoder}, unpack.FrameSize)
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.Name, b.Name) })
	out, buf := tar.NewWriter(plain), make([]byte, unpack.FrameSize)
	for _, e := range all {
		body, _, err := e.open(ctx, e.Name)
		if err != nil {
			return err
		}
		err = out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.Name, Mode: 0o644, Size: e.Size})
		if err == nil {
			_, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{body}, buf)
		}
		if err := errors.Join(err, body.Close()); err != nil {
			return err
		}
	}
	if err := errors.Join(out.Close(), plain.Flush(), file.Chmod(0o644), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// packer writes each piece as a zstd frame.
type packer struct {
	io.Writer
	encoder *zstd.Encoder
	buf     []byte
}

// Write implements [io.Writer].
func (p *packer) Write(b []byte) (int, error) {
	p.buf = p.encoder.EncodeAll(b, p.buf[:0])
	_, err := p.Writer.Write(p.buf)
	return len(b), err
}
