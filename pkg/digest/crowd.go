package digest

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding"
	"encoding/binary"
	"hash"
	"io"
	"slices"

	"github.com/waybill-release/waybill/pkg/digest/lanes"
)

const (
	// crowdBuffer is what is read of each stream at a time. Those of a whole
	// crowd are read twice, once for each digest, and should still be in the
	// processor's own memory the second time.
	crowdBuffer = 32 << 10
	// crowdEnd is what is left to the library at the end of a stream, so that
	// no short end makes the steps of all others short.
	crowdEnd = 2 << 10
	// fewest256 and fewest512 are how many messages are quicker in lanes than
	// one after another in the library, which for SHA-256 has instructions of
	// the processor's own.
	fewest256 = 10
	fewest512 = 3
)

// crowd sums up to sixteen streams beside each other in the lanes of one
// processor. It belongs to one goroutine.
type crowd struct {
	Many
	next   func() (int, bool)
	active []*message
	spare  [][]byte
	empty  bool // next has said so
}

// message is one stream of a crowd. Of its buffer, buf[off:end] is not hashed
// yet; that is a number of whole blocks unless the stream has ended.
type message struct {
	i        int
	body     io.ReadCloser
	buf      []byte
	off, end int
	last     bool // the stream has ended, and the buffer has the rest of it
	size     int64
	narrow   midstate[uint32]
	wide     midstate[uint64]
}

// run sums what next names until there is no more.
func (c *crowd) run() {
	for {
		c.admit()
		if len(c.active) == 0 {
			return
		}
		c.advance()
		c.active = slices.DeleteFunc(c.active, c.ended)
	}
}

// admit opens streams until every lane has one.
func (c *crowd) admit() {
	for !c.empty && len(c.active) < lanes.Width256 {
		i, more := c.next()
		if !more {
			c.empty = true
			return
		}
		body, err := c.Open(i)
		if err != nil {
			c.Done(i, Set{}, 0, err)
			continue
		}
		m := &message{i: i, body: body, buf: c.buffer(), narrow: start[uint32](sha256.New()), wide: start[uint64](sha512.New())}
		if !c.ended(m) {
			c.active = append(c.active, m)
		}
	}
}

// ended reads on where everything read is hashed, and reports whether this was
// all, in which case Done was told.
func (c *crowd) ended(m *message) bool {
	if m.off == m.end && !m.last {
		n, last, err := fill(m.body, m.buf)
		if err != nil {
			c.leave(m, Set{}, 0, err)
			return true
		}
		m.off, m.end, m.last = 0, n, last
		m.size += int64(n)
	}
	if !m.last || m.end-m.off > crowdEnd {
		return false
	}
	var set Set
	set.SHA256 = fromSum(SHA256, m.narrow.sum(m.buf[m.off:m.end]))
	if !c.SHA256Only {
		set.SHA512 = fromSum(SHA512, m.wide.sum(m.buf[m.off:m.end]))
	}
	c.leave(m, set, m.size, nil)
	return true
}

func (c *crowd) leave(m *message, set Set, size int64, err error) {
	_ = m.body.Close() // it was read to its end, or has failed already
	c.spare = append(c.spare, m.buf)
	c.Done(m.i, set, size, err)
}

func (c *crowd) buffer() []byte {
	if n := len(c.spare); n > 0 {
		buf := c.spare[n-1]
		c.spare = c.spare[:n-1]
		return buf
	}
	return make([]byte, crowdBuffer)
}

// advance hashes as many blocks of each stream as all of them have.
func (c *crowd) advance() {
	n := crowdBuffer
	for _, m := range c.active {
		n = min(n, (m.end-m.off)&^(sha512.BlockSize-1))
	}
	if !c.SHA256Only {
		for some := range slices.Chunk(c.active, lanes.Width512) {
			step(some, n, fewest512, func(m *message) *midstate[uint64] { return &m.wide }, lanes.SHA512)
		}
	}
	step(c.active, n, fewest256, func(m *message) *midstate[uint32] { return &m.narrow }, lanes.SHA256)
	for _, m := range c.active {
		m.off += n
	}
}

// step hashes the next n bytes of some messages: in lanes, if there are enough
// of them to fill some, else one after another.
func step[W uint32 | uint64](some []*message, n, fewest int, of func(*message) *midstate[W], inLanes func([]*[8]W, [][]byte)) {
	var states [lanes.Width256]*[8]W
	var data [lanes.Width256][]byte
	for k, m := range some {
		next := m.buf[m.off : m.off+n]
		if len(some) < fewest {
			of(m).write(next)
			continue
		}
		states[k], data[k] = of(m).lend(n), next
	}
	if len(some) >= fewest {
		inLanes(states[:len(some)], data[:len(some)])
	}
}

// midstate is a hash on its way, which is either with the library or, as its
// eight words, lent to the lanes. Bytes come in whole blocks until the last.
//
// What the library writes of a hash begins with four bytes that name it, has
// the words after them, then a block that is not full, and ends with the
// number of bytes; the tests of this package hold it to that.
type midstate[W uint32 | uint64] struct {
	library hash.Hash
	lent    bool
	words   [8]W
	raw     []byte // what the library wrote before it lent
	size    uint64 // bytes so far
}

func start[W uint32 | uint64](h hash.Hash) midstate[W] { return midstate[W]{library: h} }

// lend returns the words, to which the caller adds n bytes.
func (s *midstate[W]) lend(n int) *[8]W {
	if !s.lent {
		s.raw, _ = s.library.(encoding.BinaryAppender).AppendBinary(s.raw[:0]) // hashes of the library always can
		for i := range s.words {
			if _, err := binary.Decode(s.raw[4+i*binary.Size(s.words[i]):], binary.BigEndian, &s.words[i]); err != nil {
				panic("digest: " + err.Error())
			}
		}
		s.lent = true
	}
	s.size += uint64(n)
	return &s.words
}

// write adds p with the library.
func (s *midstate[W]) write(p []byte) {
	s.back()
	s.library.Write(p)
	s.size += uint64(len(p))
}

// sum adds the end and returns the hash.
func (s *midstate[W]) sum(p []byte) []byte {
	s.write(p)
	return s.library.Sum(nil)
}

// back gives the words back to the library.
func (s *midstate[W]) back() {
	if !s.lent {
		return
	}
	for i := range s.words {
		if _, err := binary.Encode(s.raw[4+i*binary.Size(s.words[i]):], binary.BigEndian, s.words[i]); err != nil {
			panic("digest: " + err.Error())
		}
	}
	binary.BigEndian.PutUint64(s.raw[len(s.raw)-8:], s.size)
	if err := s.library.(encoding.BinaryUnmarshaler).UnmarshalBinary(s.raw); err != nil {
		panic("digest: " + err.Error())
	}
	s.lent = false
}
