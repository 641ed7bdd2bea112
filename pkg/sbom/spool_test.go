package sbom

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

// TestSpool reads at the seams: of pieces, and of memory and disk.
func TestSpool(t *testing.T) {
	const most = maxHeld / 4
	for _, size := range []int64{0, 1, pieceSize - 1, pieceSize, pieceSize + 1, most - 1, most, most + 1, most + 3*pieceSize} {
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(i * i >> 7)
		}
		s := &spool{spare: true}
		for range 2 { // its memory is used again
			at, n, err := s.fill(bytes.NewReader(want))
			if err != nil || n != size {
				t.Fatalf("%d bytes: %d, %v", size, n, err)
			}
			got, err := io.ReadAll(io.NewSectionReader(at, 0, n))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes: %d others, %v", size, len(got), err)
			}
			if m, err := at.ReadAt(make([]byte, 8), size); m != 0 || err != io.EOF {
				t.Errorf("%d bytes: %d more, %v", size, m, err)
			}
			want = want[:size/2]
			size = int64(len(want))
		}
		s.close()
	}
}

// TestSpoolBrokenOff takes no stream that breaks off for one that ends.
func TestSpoolBrokenOff(t *testing.T) {
	for _, size := range []int64{10, pieceSize, maxHeld} {
		broken := io.MultiReader(io.LimitReader(zeros{}, size), iotest.ErrReader(io.ErrUnexpectedEOF))
		s := &spool{}
		if _, _, err := s.fill(broken); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("after %d bytes: %v", size, err)
		}
		s.close()
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
