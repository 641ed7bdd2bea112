package image

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Layer is one layer of a built image.
type Layer struct {
	Descriptor registry.Descriptor
	// DiffID is the digest of the uncompressed layer.
	DiffID digest.Digest
	open   func(context.Context) (io.ReadCloser, error)
}

// Open returns the bytes of the layer. The reader ends with an error if they
// do not match the descriptor. The caller closes it.
func (l Layer) Open(ctx context.Context) (io.ReadCloser, error) {
	body, err := l.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("opening layer %s: %w", l.Descriptor.Digest, err)
	}
	return &verified{Reader: digest.NewVerifyingReader(body, l.Descriptor.Digest, l.Descriptor.Size), Closer: body}, nil
}

type verified struct {
	io.Reader
	io.Closer
}

// newLayer packs files once to get digest and size, and packs them again when
// the layer is read: an image may be larger than memory, and no copy is
// stored on disk.
func newLayer(ctx context.Context, files []File, created time.Time) (Layer, error) {
	entries, err := arrange(files)
	if err != nil {
		return Layer{}, err
	}
	plain, packed := digest.NewHasher(), digest.NewHasher()
	if err := pack(ctx, entries, created, sinks{packed: packed, plain: plain}); err != nil {
		return Layer{}, err
	}
	open := func(ctx context.Context) (io.ReadCloser, error) {
		r, w := io.Pipe()
		// The goroutine owns w; closing r makes its next write fail.
		go func() { w.CloseWithError(pack(ctx, entries, created, sinks{packed: w, plain: io.Discard})) }()
		return r, nil
	}
	return Layer{
		Descriptor: registry.Descriptor{MediaType: string(types.OCILayer), Digest: packed.Set().SHA256, Size: packed.Size()},
		DiffID:     plain.Set().SHA256, open: open,
	}, nil
}

// entry is a directory if it has no file.
type entry struct {
	name string // as in tar: relative, directories with a slash at the end
	file *File
}

// arrange sorts the files and puts every directory before its contents.
//
// A directory entry also sets the mode of an existing directory of the base:
// a file below /tmp would make /tmp unwritable for others.
func arrange(files []File) ([]entry, error) {
	byPath := map[string]entry{}
	for _, f := range files {
		if reason := pathFault(f); reason != "" {
			return nil, verdict.Refuse(verdict.Path, bounded(f.Path), "a file of the image %s", reason)
		}
		if _, taken := byPath[f.Path]; taken {
			return nil, verdict.Refuse(verdict.Path, f.Path, "two files of the image have this path")
		}
		byPath[f.Path] = entry{name: f.Path[1:], file: &f}
	}
	for _, f := range files {
		for dir := path.Dir(f.Path); dir != "/"; dir = path.Dir(dir) {
			if e, taken := byPath[dir]; taken && e.file != nil {
				return nil, verdict.Refuse(verdict.Path, f.Path, "%q is a file", dir)
			}
			byPath[dir] = entry{name: dir[1:] + "/"}
		}
	}
	return slices.SortedFunc(maps.Values(byPath), func(x, y entry) int { return cmp.Compare(x.name, y.name) }), nil
}

func pathFault(f File) string {
	p := f.Path
	strange := func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }
	switch {
	case !path.IsAbs(p) || path.Clean(p) != p || p == "/" || len(p) > 1024:
		return "has a path that is not absolute and clean"
	case strings.ContainsFunc(p, strange) || strings.Contains(p, `\`):
		return "has a path with unprintable characters or a backslash"
	case strings.Contains(p, "/.wh."):
		return "would hide files of the base"
	case f.Open == nil || f.Size < 0 || f.Mode == 0:
		return "has no content, size or mode"
	case !f.Mode.IsRegular():
		return "is not a regular file"
	}
	return ""
}

// sinks are the destinations of a layer: compressed and uncompressed.
type sinks struct{ packed, plain io.Writer }

// pack writes the layer, independently of machine and time.
func pack(ctx context.Context, entries []entry, created time.Time, to sinks) error {
	zip := gzip.NewWriter(to.packed)
	out := tar.NewWriter(io.MultiWriter(zip, to.plain))
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := packEntry(out, e, created); err != nil {
			return fmt.Errorf("packing %q: %w", "/"+e.name, err)
		}
	}
	return errors.Join(out.Close(), zip.Close())
}

func packEntry(out *tar.Writer, e entry, created time.Time) error {
	h := &tar.Header{Name: e.name, Typeflag: tar.TypeDir, Mode: 0o755, ModTime: created}
	if e.file != nil {
		h.Typeflag, h.Size, h.Mode = tar.TypeReg, e.file.Size, 0o644
		if e.file.Mode&0o111 != 0 {
			h.Mode = 0o755
		}
	}
	if err := out.WriteHeader(h); err != nil || e.file == nil {
		return err
	}
	body, err := e.file.Open()
	if err != nil {
		return err
	}
	defer body.Close()
	n, err := io.Copy(out, body)
	if errors.Is(err, tar.ErrWriteTooLong) || (err == nil && n != h.Size) {
		return verdict.Refuse(verdict.Tampered, e.file.Path, "the file does not have the expected %d bytes", h.Size)
	}
	return err
}

// bounded shortens and quotes foreign text.
func bounded(s string) string { return fmt.Sprintf("%.200q", s) }
