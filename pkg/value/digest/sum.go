package digest

import (
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
	"sync/atomic"
)

const (
	// bufferSize is the unit of reading and hashing.
	bufferSize = 256 << 10
	// smallSize is read first: most inputs end within it, and allocating the
	// full buffer would cost more than hashing them.
	smallSize = 16 << 10
	// maxEmptyReads is how often in a row a reader may answer neither bytes
	// nor an error before it is considered stuck.
	maxEmptyReads = 100
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
//
// Hashing happens on the calling goroutine: overlapping the two algorithms and
// the reads was measured to gain 5% on two hardware threads, which callers put
// to better use by summing several artifacts at once.
func Sum(r io.Reader) (Set, int64, error) { return new(summer).Sum(r) }

// SumSHA256 reads r to its end and returns its SHA-256 and the number of
// bytes. On error the other results are zero. The caller bounds r.
func SumSHA256(r io.Reader) (Digest, int64, error) { return new(summer).SumSHA256(r) }

// summer sums one stream after another and keeps its buffer from each to the
// next: for many files, clearing a fresh one for each would show. The zero
// value is ready to use. It is not safe for concurrent use.
type summer struct{ buf []byte }

// Sum is [Sum] with the buffer of s.
func (s *summer) Sum(r io.Reader) (Set, int64, error) {
	h := NewHasher()
	n, err := s.drain(h, r)
	if err != nil {
		return Set{}, 0, err
	}
	return h.Set(), n, nil
}

// SumSHA256 is [SumSHA256] with the buffer of s.
func (s *summer) SumSHA256(r io.Reader) (Digest, int64, error) {
	h := sha256.New()
	n, err := s.drain(h, r)
	if err != nil {
		return Digest{}, 0, err
	}
	return fromSum(SHA256, h.Sum(nil)), n, nil
}

// drain writes all of r to h, which is a hash and never fails, and counts.
func (s *summer) drain(h io.Writer, r io.Reader) (size int64, err error) {
	if s.buf == nil {
		s.buf = make([]byte, smallSize)
	}
	for {
		n, end, err := fill(r, s.buf)
		if err != nil {
			return 0, err
		}
		_, _ = h.Write(s.buf[:n])
		size += int64(n)
		if end {
			return size, nil
		}
		if len(s.buf) < bufferSize {
			s.buf = make([]byte, bufferSize)
		}
	}
}

// fill reads until buf is full or r ends, and says which. Only io.EOF itself
// is an end: io.ErrUnexpectedEOF is how a connection reports that it broke.
func fill(r io.Reader, buf []byte) (n int, end bool, err error) {
	for empty := 0; n < len(buf); {
		m, err := r.Read(buf[n:])
		n += m
		switch {
		case err == io.EOF:
			return n, true, nil
		case err != nil:
			return 0, false, readError("to hash", err)
		case m > 0:
			empty = 0
		default:
			if empty++; empty >= maxEmptyReads {
				return 0, false, readError("to hash", io.ErrNoProgress)
			}
		}
	}
	return n, false, nil
}

// readError wraps an error of the underlying reader. An error that merely
// contains io.EOF is no end of file and must not be taken for one further up.
func readError(purpose string, err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("reading bytes %s: %w: %v", purpose, io.ErrUnexpectedEOF, err)
	}
	return fmt.Errorf("reading bytes %s: %w", purpose, err)
}

// Many sums many streams, each as [Sum] does, several at a time.
type Many struct {
	// Open opens stream number i. It is called once for each, the lowest
	// numbers first: put the longest streams there, so that none runs alone at
	// the end. Called from several goroutines.
	Open func(i int) (io.ReadCloser, error)
	// Done receives the result of stream number i, which is closed by then: its
	// digests and its number of bytes, or an error and zeros. Called from
	// several goroutines.
	Done func(i int, set Set, size int64, err error)
	// Workers is how many goroutines read and hash, at least 1.
	Workers int
	// SHA256Only computes no SHA-512; that digest stays zero.
	SHA256Only bool
}

// Sum sums the streams 0 to n-1 and returns after Done was called for each.
func (m Many) Sum(n int) {
	var taken atomic.Int64
	next := func() (int, bool) {
		i := int(taken.Add(1)) - 1
		return i, i < n
	}
	var all sync.WaitGroup
	for range max(1, min(m.Workers, n)) {
		all.Go(func() { m.inTurn(next) })
	}
	all.Wait()
}

// inTurn sums one stream after another.
func (m Many) inTurn(next func() (int, bool)) {
	var s summer
	for i, more := next(); more; i, more = next() {
		set, size, err := m.one(&s, i)
		m.Done(i, set, size, err)
	}
}

func (m Many) one(s *summer, i int) (set Set, size int64, err error) {
	r, err := m.Open(i)
	if err != nil {
		return Set{}, 0, err
	}
	defer r.Close()
	if m.SHA256Only {
		set.SHA256, size, err = s.SumSHA256(r)
		return set, size, err
	}
	return s.Sum(r)
}
