package digest

import (
	"io"
	"sync"
	"sync/atomic"
)

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
