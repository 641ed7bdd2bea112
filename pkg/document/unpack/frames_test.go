package unpack_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/waybill-release/waybill/pkg/document/unpack"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// framed compresses each piece as one frame.
func framed(t *testing.T, pieces ...[]byte) (all []byte) {
	t.Helper()
	w, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pieces {
		all = w.EncodeAll(p, all)
	}
	return all
}

// readFramed reads all that frames hold, in pieces that do not fit them.
func readFramed(raw []byte) ([]byte, error) {
	f, err := unpack.OpenFrames(bytes.NewReader(raw), int64(len(raw)))
	if err != nil || f == nil {
		return nil, err
	}
	var out bytes.Buffer
	_, err = io.CopyBuffer(struct{ io.Writer }{&out}, struct{ io.Reader }{f.On(bytes.NewReader(raw))}, make([]byte, 100_001))
	return out.Bytes(), err
}

// TestFrames: frames are read at any offset. A file of which another program could
// read other bytes, or fewer, is refused.
func TestFrames(t *testing.T) {
	full := make([]byte, unpack.FrameSize)
	for i := range full {
		full[i] = byte(i * i >> 7)
	}
	last := []byte("the last frame is shorter")
	good := framed(t, full, full, last)
	first := len(framed(t, full))
	skippable := []byte("\x50\x2a\x4d\x18\x04\x00\x00\x00hide")
	var summed bytes.Buffer
	w, _ := zstd.NewWriter(&summed, zstd.WithEncoderCRC(true))
	_, _ = w.Write(last)
	_ = w.Close()
	empty := append([]byte("\x28\xb5\x2f\xfd\x20\x05"), make([]byte, 3<<20)...) // blocks of no bytes, without a last one
	other := slices.Clone(framed(t, last))
	other[5]++ // it says that it holds one byte more
	for name, row := range map[string]struct {
		raw  []byte
		want string
	}{
		"three frames (twin)":                    {good, ""},
		"cut off in a frame":                     {good[:first+100], "ARCHIVE_PARSE"},
		"cut off in a header":                    {good[:2*first+3], "ARCHIVE_PARSE"},
		"another archive behind it":              {append(slices.Clone(good), good...), "ARCHIVE_PARSE"},
		"a short frame before a full one":        {framed(t, last, full), "ARCHIVE_PARSE"},
		"a frame that programs skip":             {slices.Concat(good[:first], skippable, good[first:]), "ARCHIVE_HIDDEN"},
		"a frame that programs skip, at its end": {append(slices.Clone(good), skippable...), "ARCHIVE_HIDDEN"},
		"bytes behind it":                        {append(slices.Clone(good), "bytes"...), "ARCHIVE_PARSE"},
		"zeros behind it":                        {append(slices.Clone(good), make([]byte, 512)...), "ARCHIVE_PARSE"},
		"a frame of more bytes":                  {framed(t, append(slices.Clone(full), 'x')), "ARCHIVE_PARSE"},
		"a frame that does not say how many":     {summed.Bytes(), "ARCHIVE_PARSE"},
		"a frame that says one more":             {other, "ARCHIVE_PARSE"},
		"a frame of blocks without an end":       {empty, "ARCHIVE_PARSE"},
		"a bomb":                                 {bytes.Repeat(framed(t, make([]byte, unpack.FrameSize)), 200), "LIMIT"},
		"as many zeros as are allowed (twin)":    {bytes.Repeat(framed(t, make([]byte, unpack.FrameSize)), 60), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readFramed(row.raw)
			if row.want == "" {
				if err != nil || name == "three frames (twin)" && !bytes.Equal(got, slices.Concat(full, full, last)) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
				return
			}
			var refusal *verdict.Error
			if !errors.As(err, &refusal) || string(refusal.Finding.Code) != row.want {
				t.Errorf("%v, want %s", err, row.want)
			}
		})
	}
}

// TestFramesMangled: no prefix of an archive of frames is read to its end, and no
// altered byte reads as other bytes without a refusal but those of its content.
func TestFramesMangled(t *testing.T) {
	good := framed(t, []byte("some bytes, some bytes, some bytes"))
	for i := range good {
		if got, err := readFramed(good[:i]); err == nil && got != nil {
			t.Errorf("cut off at %d: read %d bytes", i, len(got))
		}
		bad := slices.Clone(good)
		bad[i] ^= 1
		if got, err := readFramed(bad); err == nil && got != nil && len(got) != 34 {
			t.Errorf("byte %d altered: %d bytes", i, len(got))
		}
	}
}

// repeated is a file of one piece again and again, which remembers how far it was read.
type repeated struct {
	piece []byte
	far   int64
}

// ReadAt implements [io.ReaderAt].
func (r *repeated) ReadAt(p []byte, at int64) (int, error) {
	r.far = max(r.far, at)
	for i := range p {
		p[i] = r.piece[(at+int64(i))%int64(len(r.piece))]
	}
	return len(p), nil
}

// TestFramesBomb: a large file of small frames is refused before all of them are listed
// in memory. The twin is the same file, cut to what is allowed.
func TestFramesBomb(t *testing.T) {
	bomb := &repeated{piece: framed(t, make([]byte, unpack.FrameSize))}
	small := int64(len(bomb.piece))
	if _, err := unpack.OpenFrames(bomb, 60*small); err != nil {
		t.Error(err)
	}
	size := 1_000_000 * small
	_, err := unpack.OpenFrames(bomb, size)
	if f := verdict.FindingOf("", err); f.Code != verdict.Limit || bomb.far > size/10 {
		t.Errorf("%v, after %d of %d bytes", err, bomb.far, size)
	}
}
