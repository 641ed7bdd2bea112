package digest

import (
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"io"
)

const (
	// bufferSize is the unit of reading and hashing.
	bufferSize = 256 << 10
	// smallSize is read first: an input that ends within it is hashed without
	// allocating full buffers or starting a goroutine.
	smallSize = 16 << 10
)

// Hasher computes both digests of what is written to it. It is not safe for
// concurrent use.
type Hasher struct {
	sha256, sha512 hash.Hash
	size           int64
}

// NewHasher returns a Hasher that has seen no bytes.
func NewHasher() *Hasher {
	return &Hasher{sha256: sha256.New(), sha512: sha512.New()}
}

// Write adds p to both digests. It never fails.
func (h *Hasher) Write(p []byte) (int, error) {
	h.sha256.Write(p)
	h.sha512.Write(p)
	h.size += int64(len(p))
	return len(p), nil
}

// Set returns the digests of the bytes written so far; more may follow.
func (h *Hasher) Set() Set {
	return Set{SHA256: fromSum(SHA256, h.sha256.Sum(nil)), SHA512: fromSum(SHA512, h.sha512.Sum(nil))}
}

// Size returns the number of bytes written so far.
func (h *Hasher) Size() int64 { return h.size }

// Sum reads r to its end, once, and returns both digests and the number of
// bytes. On error the other results are zero. The caller bounds r.
func Sum(r io.Reader) (Set, int64, error) {
	h := NewHasher()
	small := make([]byte, smallSize)
	n, end, err := fill(r, small)
	if err != nil {
		return Set{}, 0, err
	}
	h.Write(small[:n])
	if !end {
		if err := h.drain(r); err != nil {
			return Set{}, 0, err
		}
	}
	return h.Set(), h.size, nil
}

// drain hashes the rest of r. While one goroutine computes SHA-512, by far the
// slower of the two, over the current buffer, this one computes SHA-256 over
// the same buffer and then reads the next.
func (h *Hasher) drain(r io.Reader) error {
	current, next := make([]byte, bufferSize), make([]byte, bufferSize)
	n, end, err := fill(r, current)
	for err == nil {
		if end {
			h.Write(current[:n])
			return nil
		}
		done := make(chan struct{}) // closed when h.sha512 and current are ours again
		go func(full []byte) {
			defer close(done)
			h.sha512.Write(full)
		}(current)
		h.sha256.Write(current)
		h.size += int64(n)
		n, end, err = fill(r, next)
		<-done
		current, next = next, current
	}
	return err
}

// SumSHA256 reads r to its end and returns its SHA-256 and the number of
// bytes. On error the other results are zero. The caller bounds r.
func SumSHA256(r io.Reader) (Digest, int64, error) {
	h := sha256.New()
	size, buf := int64(0), make([]byte, smallSize)
	for {
		n, end, err := fill(r, buf)
		if err != nil {
			return Digest{}, 0, err
		}
		h.Write(buf[:n])
		size += int64(n)
		if end {
			return fromSum(SHA256, h.Sum(nil)), size, nil
		}
		if len(buf) < bufferSize {
			buf = make([]byte, bufferSize)
		}
	}
}

// fill reads until buf is full or r ends, and says which.
func fill(r io.Reader, buf []byte) (n int, end bool, err error) {
	n, err = io.ReadFull(r, buf)
	switch {
	case err == nil:
		return n, false, nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return n, true, nil
	}
	return 0, false, fmt.Errorf("reading bytes to hash: %w", err)
}
