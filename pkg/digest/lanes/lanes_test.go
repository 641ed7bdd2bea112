package lanes

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding"
	"encoding/binary"
	"fmt"
	"hash"
	"math/rand/v2"
	"slices"
	"testing"
)

// need skips where the processor has no lanes: nothing calls them there.
func need(t testing.TB) {
	t.Helper()
	if !Available() {
		t.Skip("this processor has no lanes")
	}
}

// state is what the standard library has come to after data.
func state(t testing.TB, h hash.Hash, data []byte) []byte {
	t.Helper()
	h.Write(data)
	raw, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return raw[4:]
}

func words64(raw []byte) (w [8]uint64) {
	for i := range w {
		w[i] = binary.BigEndian.Uint64(raw[8*i:])
	}
	return w
}

func words32(raw []byte) (w [8]uint32) {
	for i := range w {
		w[i] = binary.BigEndian.Uint32(raw[4*i:])
	}
	return w
}

// messages are n messages of one length, none at the start of its memory.
func messages(random *rand.ChaCha8, n, size int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		raw := make([]byte, size+i+1)
		_, _ = random.Read(raw)
		all[i] = raw[i+1:]
	}
	return all
}

// TestLanesAreTheStandardLibrary asks for each number of messages and several
// lengths, in two parts, what crypto/sha256 and crypto/sha512 make of them.
func TestLanesAreTheStandardLibrary(t *testing.T) {
	need(t)
	random := rand.NewChaCha8([32]byte{1})
	for _, blocks := range []int{0, 1, 2, 7, 64} {
		for n := 1; n <= Width256; n++ {
			compare(t, messages(random, n, block256), messages(random, n, block256*blocks), SHA256,
				func(data []byte) [8]uint32 { return words32(state(t, sha256.New(), data)) })
		}
		for n := 1; n <= Width512; n++ {
			compare(t, messages(random, n, block512), messages(random, n, block512*blocks), SHA512,
				func(data []byte) [8]uint64 { return words64(state(t, sha512.New(), data)) })
		}
	}
}

// compare adds the second parts to the states of the first in lanes.
func compare[W uint32 | uint64](t *testing.T, first, second [][]byte, add func([]*[8]W, [][]byte), library func([]byte) [8]W) {
	t.Helper()
	states := make([]*[8]W, len(first))
	for i := range states {
		s := library(first[i])
		states[i] = &s
	}
	add(states, second)
	for i, got := range states {
		if want := library(slices.Concat(first[i], second[i])); *got != want {
			t.Fatalf("message %d of %d, %d bytes: %x, want %x", i, len(first), len(second[i]), *got, want)
		}
	}
}

// TestLanesRefuse holds what may not reach the registers: each row is a call
// that would read what it must not, beside one that does not.
func TestLanesRefuse(t *testing.T) {
	need(t)
	var s [17][8]uint32
	states := func(n int) (all []*[8]uint32) {
		for i := range n {
			all = append(all, &s[i])
		}
		return all
	}
	data := func(sizes ...int) (all [][]byte) {
		for _, size := range sizes {
			all = append(all, make([]byte, size))
		}
		return all
	}
	for _, row := range []struct {
		name   string
		states int
		data   [][]byte
		panics bool
	}{
		{"two messages", 2, data(64, 64), false},
		{"no message", 0, nil, true},
		{"more messages than states", 1, data(64, 64), true},
		{"more states than messages", 2, data(64), true},
		{"more than there are lanes", 17, data(make([]int, 17)...), true},
		{"another length", 2, data(128, 64), true},
		{"part of a block", 2, data(65, 65), true},
	} {
		t.Run(row.name, func(t *testing.T) {
			defer func() {
				if got := recover(); (got != nil) != row.panics {
					t.Errorf("panic %v, want one: %v", got, row.panics)
				}
			}()
			SHA256(states(row.states), row.data)
		})
	}
}

func benchmark[W uint32 | uint64](b *testing.B, name string, hash func([]*[8]W, [][]byte), data [][]byte) {
	states := make([]*[8]W, len(data))
	for i := range states {
		states[i] = new([8]W)
	}
	b.Run(name, func(b *testing.B) {
		b.SetBytes(int64(len(data) * len(data[0])))
		for b.Loop() {
			hash(states, data)
		}
	})
}

func BenchmarkLanes(b *testing.B) {
	need(b)
	const size = 32 << 10
	random := rand.NewChaCha8([32]byte{1})
	for _, n := range []int{1, 4, Width512} {
		benchmark(b, fmt.Sprintf("sha512/%d", n), SHA512, messages(random, n, size))
	}
	for _, n := range []int{1, 8, Width256} {
		benchmark(b, fmt.Sprintf("sha256/%d", n), SHA256, messages(random, n, size))
	}
	one := messages(random, 1, size)[0]
	b.Run("library/sha512", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			sha512.Sum512(one)
		}
	})
	b.Run("library/sha256", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			sha256.Sum256(one)
		}
	})
}
