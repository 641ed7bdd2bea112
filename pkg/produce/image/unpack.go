package image

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Limits of an image that is unpacked, far above those of images with
// compilers.
const (
	maxUnpacked = 32 << 30 // of all layers, uncompressed
	maxLayers   = 500      // of an image, and of all platforms together
	maxEntries  = 2 << 20
	maxNames    = 512 << 20 // bytes of their names
	maxDepth    = 255       // of directories in one another
	maxWindow   = 32 << 20  // memory of zstd, four times what its writers use
)

// Unpacked describes an unpacked image.
type Unpacked struct {
	// Digest is that of the platform's manifest.
	Digest digest.Digest
	// Env is the environment that the image sets, as "NAME=value".
	Env []string
	// Dropped counts the devices and pipes that were left out.
	Dropped int
}

// Unpack writes the image of a platform into dir, which must be empty or
// absent: all layers, one over the other, with whiteouts and opaque
// directories (image specification, "Layers"). Both digests of every layer
// are verified.
//
// Nothing is written outside of dir: links are followed as the image would
// follow them, with dir as the root. Devices and pipes are left out; owners,
// extended attributes and mode bits beyond 0777 are dropped, and whoever
// unpacks can read and remove all of it.
//
// After an error the contents of dir are incomplete and must not be used.
func Unpack(ctx context.Context, base Base, platform, dir string) (Unpacked, error) {
	below, err := readBase(ctx, base, platform)
	if err != nil {
		return Unpacked{}, err
	}
	u, err := openTree(dir)
	if err != nil {
		return Unpacked{}, err
	}
	for _, l := range below.layers {
		if err := u.layer(ctx, l); err != nil {
			return Unpacked{}, errors.Join(fmt.Errorf("unpacking layer %s: %w", l.Descriptor.Digest, err), u.close())
		}
	}
	return Unpacked{Digest: below.digest, Env: below.config.Config.Env, Dropped: u.dropped}, u.close()
}

// Layers lists the layers of the image of a platform, each with a way to open
// it.
func Layers(ctx context.Context, base Base, platform string) ([]Layer, error) {
	below, err := readBase(ctx, base, platform)
	return below.layers, err
}

func readBase(ctx context.Context, base Base, platform string) (below, error) {
	goos, arch, _ := strings.Cut(platform, "/")
	image, err := base.Image(ctx, platform)
	if err != nil {
		return below{}, err
	}
	return readDocuments(image, Platform{OS: goos, Arch: arch})
}

func openTree(dir string) (*unpacker, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("unpacking: %w", err)
	}
	held, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("unpacking: %w", err)
	}
	if len(held) > 0 {
		return nil, verdict.Refuse(verdict.Usage, dir, "the directory to unpack into is not empty")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("unpacking: %w", err)
	}
	u := &unpacker{root: root, entries: maxEntries, names: maxNames}
	u.bytes.Store(maxUnpacked)
	return u, nil
}

// layer unpacks one layer over the previous ones.
func (u *unpacker) layer(ctx context.Context, l Layer) error {
	u.written, u.resolved = map[string]bool{}, map[string]string{}
	return l.inflated(ctx, &u.bytes, func(stream io.Reader) error {
		entries := tar.NewReader(stream)
		for {
			if err := ctx.Err(); err != nil {
				return err
			}
			h, err := entries.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err == nil {
				err = u.entry(h, entries)
			}
			if err != nil {
				return err
			}
		}
	})
}

// inflated passes a layer to show, uncompressed, and verifies both of its
// digests. left is the number of bytes permitted, and is reduced.
func (l Layer) inflated(ctx context.Context, left *atomic.Int64, show func(io.Reader) error) (err error) {
	body, err := l.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	packed := &bodyReader{r: body, at: l.Descriptor.Digest.String()}
	plain, done, err := inflate(types.MediaType(l.Descriptor.MediaType), packed)
	if err != nil {
		return fault(l, err)
	}
	defer done()
	sum := sha256.New()
	stream := io.TeeReader(&limitedReader{ctx: ctx, r: plain, left: left}, sum)
	if err := show(stream); err != nil {
		return fault(l, err)
	}
	// Bytes after the last entry are part of the digests.
	for _, rest := range []io.Reader{stream, packed} {
		if _, err := io.Copy(io.Discard, rest); err != nil {
			return fault(l, err)
		}
	}
	got, err := digest.ParseHex(digest.SHA256, hex.EncodeToString(sum.Sum(nil)))
	if err == nil && !got.Equal(l.DiffID) {
		err = &digest.MismatchError{Want: l.DiffID, Got: got}
	}
	return err
}

// inflate decompresses a layer. done frees resources.
func inflate(t types.MediaType, body io.Reader) (plain io.Reader, done func(), err error) {
	switch t {
	case types.OCIUncompressedLayer:
		return body, func() {}, nil
	case types.OCILayerZStd:
		z, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	z, err := gzip.NewReader(body)
	return z, func() {}, err
}

// fault reports an unreadable layer as not being an archive, unless the cause
// has its own code.
func fault(l Layer, err error) error {
	var coded interface{ Code() string }
	var refusal *verdict.Error
	var disk *fs.PathError
	var name *os.LinkError
	if errors.As(err, &coded) || errors.As(err, &refusal) || errors.As(err, &disk) || errors.As(err, &name) {
		return err
	}
	return verdict.Wrap(verdict.FileType, l.Descriptor.Digest.String(), fmt.Errorf("the layer is not an archive: %w", err))
}

// bodyReader turns an interrupted body into unavailability; refusals stay what
// they are.
type bodyReader struct {
	r  io.Reader
	at string
}

// Read implements [io.Reader].
func (a *bodyReader) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	var coded interface{ Code() string }
	if err != nil && err != io.EOF && !errors.As(err, &coded) {
		err = &verdict.UnavailableError{Place: a.at, Op: "reading layer", Err: err}
	}
	return n, err
}

// limitedReader refuses a layer that is larger than the remaining limit, and stops
// on cancellation.
type limitedReader struct {
	ctx  context.Context
	r    io.Reader
	left *atomic.Int64
}

// Read implements [io.Reader].
func (r *limitedReader) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	n, err := r.r.Read(p)
	if r.left.Add(-int64(n)) < 0 {
		return 0, verdict.Refuse(verdict.Limit, "layers", "more than %d bytes without compression", int64(maxUnpacked))
	}
	return n, err
}
