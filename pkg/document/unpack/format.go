package unpack

import (
	"archive/tar"
	"bytes"
	"compress/bzip2"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Format is the format of an archive.
type Format uint8

// The formats. The compressed ones are assumed to contain a tar archive.
const (
	None Format = iota
	Tar
	Gzip
	Zstd
	Bzip2
	Zip
	// XZ is detected, but not supported.
	XZ
)

// HeadSize is how many bytes of a file are needed to detect its format.
const HeadSize = 512

// maxWindow limits the memory for a zstd stream, as in its own tools.
const maxWindow = 128 << 20

// Sniff detects the format from the first bytes of a file.
func Sniff(head []byte) Format {
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		return Gzip
	case bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")):
		return Zstd
	case bytes.HasPrefix(head, []byte("BZh")):
		return Bzip2
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("PK\x05\x06")):
		return Zip
	case bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")):
		return XZ
	case isTar(head):
		return Tar
	}
	return None
}

// isTar looks for a header with the right magic or, for the oldest format
// without magic, the right checksum.
func isTar(head []byte) bool {
	if len(head) < 512 {
		return false
	}
	if bytes.HasPrefix(head[257:], []byte("ustar")) {
		return true
	}
	if head[0] == 0 {
		return false
	}
	_, err := tar.NewReader(bytes.NewReader(head)).Next()
	return err == nil
}

// expand decompresses a format.
func expand(r io.Reader, f Format) (io.ReadCloser, error) {
	switch f {
	case Tar:
		return io.NopCloser(r), nil
	case Gzip:
		return gzip.NewReader(r)
	case Zstd:
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	case Bzip2:
		return io.NopCloser(bzip2.NewReader(r)), nil
	case XZ:
		return nil, ErrXZ
	}
	return nil, ErrFormat
}
