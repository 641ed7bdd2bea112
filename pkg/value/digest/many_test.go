package digest_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// closer counts what was closed.
type closer struct {
	io.Reader
	closed func()
}

func (c closer) Close() error {
	c.closed()
	return nil
}

// result is what Many said of one stream, and how often.
type result struct {
	set   digest.Set
	size  int64
	err   error
	times int
}

// sumMany sums the bodies and returns what came of each.
func sumMany(t *testing.T, m digest.Many, bodies []func() io.Reader) []result {
	t.Helper()
	results := make([]result, len(bodies))
	var mu sync.Mutex // guards results and closed
	closed := 0
	m.Open = func(i int) (io.ReadCloser, error) {
		body := bodies[i]()
		if body == nil {
			return nil, errClosedPlace
		}
		return closer{body, func() { mu.Lock(); closed++; mu.Unlock() }}, nil
	}
	m.Done = func(i int, set digest.Set, size int64, err error) {
		mu.Lock()
		defer mu.Unlock()
		results[i] = result{set, size, err, results[i].times + 1}
	}
	m.Sum(len(bodies))
	opened := 0
	for i, r := range results {
		if r.times != 1 {
			t.Errorf("told %d times of stream %d", r.times, i)
		}
		if !errors.Is(r.err, errClosedPlace) {
			opened++
		}
	}
	if closed != opened {
		t.Errorf("%d streams closed of %d", closed, opened)
	}
	return results
}

var errClosedPlace = errors.New("closed on Sundays")

// ways are all the ways in which Many works.
func ways(t *testing.T, do func(t *testing.T, m digest.Many)) {
	for _, workers := range []int{0, 1, 3} {
		for _, narrow := range []bool{false, true} {
			t.Run(fmt.Sprintf("workers=%d,sha256=%v", workers, narrow), func(t *testing.T) {
				do(t, digest.Many{Workers: workers, SHA256Only: narrow})
			})
		}
	}
}

// TestManyIsSum sums crowds of every size, of streams of every kind of length,
// and holds each against one Sum of the same bytes.
func TestManyIsSum(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	whole := make([]byte, 200_000)
	for i := range whole {
		whole[i] = byte(random.Uint32())
	}
	edges := []int{0, 1, 55, 56, 63, 64, 111, 112, 127, 128, 2047, 2048, 2049, 32767, 32768, 32769, 32768 + 2048, 65536, 65536 + 128, 65537}
	ways(t, func(t *testing.T, m digest.Many) {
		for n := 0; n < 40; n += 3 {
			var bodies []func() io.Reader
			var wants [][]byte
			for i := range n {
				size := random.IntN(len(whole))
				if i%2 == 0 {
					size = edges[random.IntN(len(edges))]
				}
				from := random.IntN(len(whole) - size + 1)
				wants = append(wants, whole[from:from+size])
				bodies = append(bodies, func() io.Reader {
					if i%3 == 0 {
						return iotest.DataErrReader(bytes.NewReader(whole[from : from+size]))
					}
					return bytes.NewReader(whole[from : from+size])
				})
			}
			for i, got := range sumMany(t, m, bodies) {
				want, size, err := digest.Sum(bytes.NewReader(wants[i]))
				if m.SHA256Only {
					want.SHA512 = digest.Digest{}
				}
				if got.err != nil || err != nil || got.set != want || got.size != size {
					t.Fatalf("stream %d of %d, %d bytes: %v, %d, %v; want %v, %d", i, n, len(wants[i]), got.set, got.size, got.err, want, size)
				}
			}
		}
	})
}

// TestManyKeepsFailuresApart has streams that cannot be opened and that break
// among others, which are summed all the same.
func TestManyKeepsFailuresApart(t *testing.T) {
	broken := errors.New("a scratch")
	text := bytes.Repeat([]byte("waybill "), 20_000)
	want, _, _ := digest.Sum(bytes.NewReader(text))
	ways(t, func(t *testing.T, m digest.Many) {
		var bodies []func() io.Reader
		for i := range 40 {
			bodies = append(bodies, func() io.Reader {
				switch i % 4 {
				case 1:
					return nil
				case 2:
					return io.MultiReader(bytes.NewReader(text), iotest.ErrReader(broken))
				case 3:
					return io.MultiReader(bytes.NewReader(text), iotest.ErrReader(fmt.Errorf("reset: %w", io.EOF)))
				}
				return bytes.NewReader(text)
			})
		}
		for i, got := range sumMany(t, m, bodies) {
			whole := got.err == nil && got.set.SHA256 == want.SHA256 && got.size == int64(len(text))
			failed := got.set == (digest.Set{}) && got.size == 0
			ok := map[int]bool{
				0: whole,
				1: failed && errors.Is(got.err, errClosedPlace),
				2: failed && errors.Is(got.err, broken),
				3: failed && errors.Is(got.err, io.ErrUnexpectedEOF),
			}[i%4]
			if !ok {
				t.Errorf("stream %d: %v, %d, %v", i, got.set, got.size, got.err)
			}
		}
	})
}
