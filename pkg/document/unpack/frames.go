package unpack

import (
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// FrameSize is how many bytes each frame of [Frames] holds, but the last.
const FrameSize = 1 << 20

// Frames are zstd frames of one size, which are read at any offset.
type Frames struct {
	ends  []int64 // of each frame in the file
	size  int64   // of what they hold
	zstd  *zstd.Decoder
	file  io.ReaderAt
	held  int // the frame that plain has, counted from 1
	plain []byte
	buf   []byte
}

// OpenFrames finds the frames of a file; nil if it begins with none. What another
// program could skip is refused.
func OpenFrames(file io.ReaderAt, size int64) (*Frames, error) {
	head := make([]byte, zstd.HeaderMaxSize)
	if n, _ := file.ReadAt(head, 0); Sniff(head[:n]) != Zstd { // who reads it next finds the error
		return nil, nil //nolint:nilnil // it has no frames
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(FrameSize))
	f := &Frames{zstd: decoder}
	for at := int64(0); err == nil && at < size; f.ends = append(f.ends, at) {
		var h zstd.Header
		n, _ := file.ReadAt(head, at)
		bad, whole := h.Decode(head[:n]), f.size == int64(len(f.ends))*FrameSize
		if h.Skippable {
			return nil, verdict.Refuse(verdict.ArchiveHidden, "", "programs skip the zstd frame at byte %d", at)
		}
		f.size += int64(h.FrameContentSize)
		if at = endOf(file, at+int64(h.HeaderSize)); h.HasCheckSum {
			at += 4
		}
		if bad != nil || !whole || at > size || h.FrameContentSize < 1 || h.FrameContentSize > FrameSize || h.DictionaryID != 0 {
			return nil, verdict.Refuse(verdict.ArchiveParse, "", "zstd frame %d is cut off, or not one of those that hold %d bytes each", len(f.ends)+1, FrameSize)
		}
		if most := freeExpansion + maxRatio*size; f.size > most { // here, so that ends stays short
			return nil, verdict.Refuse(verdict.Limit, "", "the archive expands to more than %d bytes from %d", most, size)
		}
	}
	return f, err
}

// endOf is where the blocks of a frame end; far behind the file if nowhere soon.
func endOf(file io.ReaderAt, first int64) int64 {
	var b [3]byte
	for at := first; at < first+FrameSize+FrameSize/8; {
		if _, err := file.ReadAt(b[:], at); err != nil {
			break
		}
		if at += 3; b[0]>>1&3 == 1 {
			at++ // one byte, repeated
		} else {
			at += int64(b[0])>>3 | int64(b[1])<<5 | int64(b[2])<<13
		}
		if b[0]&1 == 1 {
			return at
		}
	}
	return 1 << 62
}

// On reads the frames in a file that is open again, by one reader at a time.
func (f Frames) On(file io.ReaderAt) *io.SectionReader {
	f.file, f.held, f.plain, f.buf = file, 0, nil, nil
	return io.NewSectionReader(&f, 0, f.size)
}

// ReadAt implements [io.ReaderAt].
func (f *Frames) ReadAt(p []byte, at int64) (n int, err error) {
	for n < len(p) && at < f.size {
		if i := int(at / FrameSize); f.held != i+1 {
			begin := int64(0)
			if f.held = 0; i > 0 {
				begin = f.ends[i-1]
			}
			packed := slices.Grow(f.buf[:0], int(f.ends[i]-begin))[:f.ends[i]-begin]
			f.buf = packed
			if _, err := f.file.ReadAt(packed, begin); err != nil {
				return n, err
			}
			f.plain, err = f.zstd.DecodeAll(packed, f.plain[:0])
			if want := min(FrameSize, f.size-at/FrameSize*FrameSize); err != nil || int64(len(f.plain)) != want {
				return n, verdict.Refuse(verdict.ArchiveParse, "", "zstd frame %d does not hold %d bytes", i+1, want)
			}
			f.held = i + 1
		}
		copied := copy(p[n:], f.plain[at%FrameSize:])
		n, at = n+copied, at+int64(copied)
	}
	if n < len(p) {
		err = io.EOF
	}
	return n, err
}
