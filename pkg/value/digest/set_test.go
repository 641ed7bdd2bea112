package digest_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

func TestParseMap(t *testing.T) {
	both := digest.SetOf(nil)
	for _, row := range []struct {
		name string
		in   map[string]string
		want digest.Set // zero: refused
	}{
		{"both", map[string]string{"sha256": emptySHA256, "sha512": emptySHA512}, both},
		{"sha256 alone", map[string]string{"sha256": emptySHA256}, digest.Set{SHA256: both.SHA256}},
		{"others are passed over", map[string]string{"sha256": emptySHA256, "gitCommit": "??"}, digest.Set{SHA256: both.SHA256}},
		{"nil", nil, digest.Set{}},
		{"only others", map[string]string{"sha1": "da39a3ee5e6b4b0d3255bfef95601890afd80709"}, digest.Set{}},
		{"sha512 alone", map[string]string{"sha512": emptySHA512}, digest.Set{}},
		{"bad sha512 beside good sha256", map[string]string{"sha256": emptySHA256, "sha512": emptySHA512[1:]}, digest.Set{}},
		{"upper-case hex", map[string]string{"sha256": strings.ToUpper(emptySHA256)}, digest.Set{}},
		{"text form as value", map[string]string{"sha256": "sha256:" + emptySHA256}, digest.Set{}},
		{"empty value", map[string]string{"sha256": ""}, digest.Set{}},
		{"name twice by case", map[string]string{"sha256": emptySHA256, "SHA256": emptySHA256}, digest.Set{}},
		{"name folded", map[string]string{"sha256": emptySHA256, "\u017fha512": emptySHA512}, digest.Set{}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := digest.ParseMap(row.in)
			var form *digest.FormError
			if row.want.IsZero() && !errors.As(err, &form) {
				t.Errorf("got %v, %v, want a FormError", got, err)
			}
			if got != row.want {
				t.Errorf("got %v, %v, want %v", got, err, row.want)
			}
		})
	}
}

func TestSetEqualNeedsBoth(t *testing.T) {
	full, other := digest.SetOf([]byte("a")), digest.SetOf([]byte("b"))
	half := digest.Set{SHA256: full.SHA256}
	mixed := digest.Set{SHA256: full.SHA256, SHA512: other.SHA512}
	if !full.Equal(full) {
		t.Error("a full set does not equal itself")
	}
	for name, s := range map[string]digest.Set{"zero": {}, "half": half, "mixed": mixed, "other": other} {
		if full.Equal(s) || s.Equal(full) {
			t.Errorf("%s equals the full set", name)
		}
	}
	if half.Equal(half) || (digest.Set{}).Equal(digest.Set{}) {
		t.Error("an incomplete set equals itself")
	}
	if !maps.Equal(half.Map(), map[string]string{"sha256": half.SHA256.Hex()}) {
		t.Errorf("Map of half a set is %v", half.Map())
	}
	if back, err := digest.ParseMap(full.Map()); err != nil || !back.Equal(full) {
		t.Errorf("ParseMap(Map()) = %v, %v", back, err)
	}
}

// The sizes lie around every edge of the buffers.
func TestSum(t *testing.T) {
	for _, size := range []int{0, 1, 16<<10 - 1, 16 << 10, 16<<10 + 1, 272 << 10, 272<<10 + 1, 800_001} {
		data := pattern(size)
		want := digest.SetOf(data)
		for name, wrap := range readers() {
			got, n, err := digest.Sum(wrap(bytes.NewReader(data)))
			if err != nil || n != int64(size) || !got.Equal(want) {
				t.Errorf("Sum of %d bytes from %s = %v, %d, %v", size, name, got, n, err)
			}
			one, n, err := digest.SumSHA256(wrap(bytes.NewReader(data)))
			if err != nil || n != int64(size) || !one.Equal(want.SHA256) {
				t.Errorf("SumSHA256 of %d bytes from %s = %v, %d, %v", size, name, one, n, err)
			}
		}
		h := digest.NewHasher()
		_, _ = h.Write(data[:size/2])
		_ = h.Set()
		_, _ = h.Write(data[size/2:])
		if !h.Set().Equal(want) || h.Size() != int64(size) {
			t.Errorf("Hasher of %d bytes = %v, %d", size, h.Set(), h.Size())
		}
	}
}

// Nothing of one stream is left in the next, whatever became of the first.
func TestSummerForgets(t *testing.T) {
	var s digest.Summer
	for _, size := range []int{300 << 10, 0, 10, 272<<10 + 1, 16 << 10} {
		data := pattern(size)
		want := digest.SetOf(data)
		if _, _, err := s.Sum(io.MultiReader(bytes.NewReader(pattern(20<<10)), failing{io.ErrClosedPipe})); err == nil {
			t.Error("a broken stream has a sum")
		}
		if got, n, err := s.Sum(bytes.NewReader(data)); err != nil || n != int64(size) || !got.Equal(want) {
			t.Errorf("Sum of %d bytes = %v, %d, %v", size, got, n, err)
		}
		if got, n, err := s.SumSHA256(bytes.NewReader(data)); err != nil || n != int64(size) || !got.Equal(want.SHA256) {
			t.Errorf("SumSHA256 of %d bytes = %v, %d, %v", size, got, n, err)
		}
	}
}

func TestSumReportsReadErrors(t *testing.T) {
	for name, row := range map[string]struct{ fail, want error }{
		"plain":          {io.ErrClosedPipe, io.ErrClosedPipe},
		"unexpected EOF": {io.ErrUnexpectedEOF, io.ErrUnexpectedEOF},
		"wrapped EOF":    {wrapped{io.EOF}, io.ErrUnexpectedEOF},
		"stuck":          {nil, io.ErrNoProgress},
	} {
		for _, size := range []int{0, 10, 300 << 10} {
			broken := func() io.Reader { return io.MultiReader(bytes.NewReader(pattern(size)), failing{row.fail}) }
			got, n, err := digest.Sum(broken())
			if !errors.Is(err, row.want) || errors.Is(err, io.EOF) || n != 0 || !got.IsZero() {
				t.Errorf("%s: Sum = %v, %d, %v", name, got, n, err)
			}
			one, n, err := digest.SumSHA256(broken())
			if !errors.Is(err, row.want) || errors.Is(err, io.EOF) || n != 0 || !one.IsZero() {
				t.Errorf("%s: SumSHA256 = %v, %d, %v", name, one, n, err)
			}
		}
	}
}

// pattern is size bytes in which no two buffers are alike.
func pattern(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return b
}

// readers are the ways in which a correct reader may behave.
func readers() map[string]func(io.Reader) io.Reader {
	return map[string]func(io.Reader) io.Reader{
		"plain":         func(r io.Reader) io.Reader { return r },
		"half reads":    iotest.HalfReader,
		"data with EOF": iotest.DataErrReader,
		"empty reads":   func(r io.Reader) io.Reader { return &stuttering{r: r} },
	}
}

// stuttering answers every other read with nothing at all.
type stuttering struct {
	r    io.Reader
	skip bool
}

func (s *stuttering) Read(p []byte) (int, error) {
	if s.skip = !s.skip; s.skip {
		return 0, nil
	}
	return s.r.Read(p)
}

// failing answers no bytes and always the same error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// wrapped contains an error, as network code likes to do.
type wrapped struct{ error }

func (w wrapped) Unwrap() error { return w.error }
