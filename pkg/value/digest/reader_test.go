package digest_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

func TestVerifyingReaderPasses(t *testing.T) {
	for _, size := range []int{0, 1, 2, 1000} {
		data := pattern(size)
		for _, alg := range []digest.Algorithm{digest.SHA256, digest.SHA512} {
			for name, wrap := range readers() {
				r := digest.NewVerifyingReader(wrap(bytes.NewReader(data)), digest.Of(alg, data), int64(size))
				got, err := io.ReadAll(r)
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("%d bytes from %s, %v: %v", size, name, alg, err)
				}
				if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
					t.Errorf("%d bytes from %s: read after the end: %d, %v", size, name, n, err)
				}
			}
		}
	}
	data := pattern(100)
	r := digest.NewVerifyingReader(bytes.NewReader(data), digest.Of(digest.SHA256, data), 100)
	if err := iotest.TestReader(r, data); err != nil {
		t.Error(err)
	}
}

func TestVerifyingReaderRefuses(t *testing.T) {
	data := pattern(50)
	want := digest.Of(digest.SHA256, data)
	short, long, flipped, empty := data[:49], append(slices.Clone(data), 0), slices.Clone(data), data[:0]
	flipped[49] ^= 1
	for _, row := range []struct {
		name string
		data []byte
		want digest.Digest
		size int64
		err  error
	}{
		{"short", short, want, 50, &digest.SizeError{Want: 50, Got: 49}},
		{"empty", empty, want, 50, &digest.SizeError{Want: 50, Got: 0}},
		{"long", long, want, 50, &digest.SizeError{Want: 50, Got: 51}},
		{"something where nothing is wanted", data, digest.Of(digest.SHA256, nil), 0, &digest.SizeError{Want: 0, Got: 1}},
		{"flipped", flipped, want, 50, &digest.MismatchError{Want: want, Got: digest.Of(digest.SHA256, flipped)}},
		{"nothing with another digest", empty, want, 0, &digest.MismatchError{Want: want, Got: digest.Of(digest.SHA256, nil)}},
		{"good bytes, smaller size", data, want, 49, &digest.SizeError{Want: 49, Got: 50}},
		{"no digest", data, digest.Digest{}, 50, &digest.MismatchError{}},
		{"unknown size", data, want, -1, &digest.SizeError{Want: -1}},
	} {
		for name, wrap := range readers() {
			t.Run(row.name+" from "+name, func(t *testing.T) {
				got, err := io.ReadAll(digest.NewVerifyingReader(wrap(bytes.NewReader(row.data)), row.want, row.size))
				assertSameError(t, err, row.err)
				if int64(len(got)) > max(row.size, 0) {
					t.Errorf("delivered %d bytes where %d were wanted", len(got), row.size)
				}
			})
		}
		// A caller that reads exactly size bytes never sees io.EOF, and has
		// to be told all the same.
		t.Run(row.name+" without asking for the end", func(t *testing.T) {
			if row.size <= 0 {
				t.Skip("no byte to ask for")
			}
			buf := make([]byte, row.size)
			if _, err := io.ReadFull(digest.NewVerifyingReader(bytes.NewReader(row.data), row.want, row.size), buf); err == nil || err == io.EOF {
				t.Errorf("ReadFull accepted: %v", err)
			}
		})
	}
}

func assertSameError(t *testing.T, got, want error) {
	t.Helper()
	var size, wantSize *digest.SizeError
	var mismatch, wantMismatch *digest.MismatchError
	switch {
	case errors.As(want, &wantSize):
		if !errors.As(got, &size) || *size != *wantSize {
			t.Errorf("got %v, want %v", got, want)
		}
	case errors.As(want, &wantMismatch):
		if !errors.As(got, &mismatch) || *mismatch != *wantMismatch {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

func TestVerifyingReaderReadsOneByteTooMuchAtMost(t *testing.T) {
	data := pattern(1000)
	source := bytes.NewReader(data)
	_, err := io.ReadAll(digest.NewVerifyingReader(source, digest.Of(digest.SHA256, data), 10))
	if err == nil {
		t.Fatal("accepted")
	}
	if read := len(data) - source.Len(); read > 11 {
		t.Errorf("%d bytes were read where 10 were wanted", read)
	}
}

// A caller may hand a buffer on without looking at n; the bytes of a refused
// last read are not in it.
func TestVerifyingReaderLeavesNoRefusedBytes(t *testing.T) {
	buf := make([]byte, 10)
	n, err := digest.NewVerifyingReader(bytes.NewReader([]byte("evil")), digest.Of(digest.SHA256, []byte("good")), 4).Read(buf)
	if n != 0 || err == nil || !bytes.Equal(buf, make([]byte, 10)) {
		t.Errorf("read %d, %v, %q", n, err, buf)
	}
}

func TestVerifyingReaderReportsReadErrors(t *testing.T) {
	data := pattern(10)
	want := digest.Of(digest.SHA256, data)
	for name, row := range map[string]struct{ fail, want error }{
		"plain":          {io.ErrClosedPipe, io.ErrClosedPipe},
		"unexpected EOF": {io.ErrUnexpectedEOF, io.ErrUnexpectedEOF},
		"wrapped EOF":    {wrapped{io.EOF}, io.ErrUnexpectedEOF},
	} {
		// Also after the last byte: whether more would have come is unknown.
		for before := range len(data) + 1 {
			r := digest.NewVerifyingReader(io.MultiReader(bytes.NewReader(data[:before]), failing{row.fail}), want, 10)
			if _, err := io.ReadAll(r); !errors.Is(err, row.want) || errors.Is(err, io.EOF) {
				t.Errorf("%s after %d bytes: %v", name, before, err)
			}
		}
	}
	stuck := digest.NewVerifyingReader(io.MultiReader(bytes.NewReader(data), failing{nil}), want, 10)
	if _, err := io.ReadAll(stuck); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a stuck reader: %v", err)
	}
}

// Every prefix and every change of one byte is refused.
func TestVerifyingReaderMangled(t *testing.T) {
	data := pattern(300)
	want := digest.Of(digest.SHA512, data)
	refused := func(b []byte) bool {
		_, err := io.Copy(io.Discard, digest.NewVerifyingReader(bytes.NewReader(b), want, 300))
		return err != nil
	}
	if refused(data) {
		t.Fatal("the good twin is refused")
	}
	for i := range data {
		bumped := slices.Clone(data)
		bumped[i]++
		if !refused(data[:i]) || !refused(bumped) {
			t.Errorf("mangled at %d: accepted", i)
		}
	}
}

func FuzzVerifyingReader(f *testing.F) {
	f.Add([]byte("good"), []byte("good"), int64(4))
	f.Add([]byte("evil"), []byte("good"), int64(4))
	f.Add([]byte("good and more"), []byte("good"), int64(4))
	f.Add([]byte(""), []byte(""), int64(-1))
	f.Fuzz(func(t *testing.T, sent, wanted []byte, size int64) {
		r := digest.NewVerifyingReader(iotest.HalfReader(bytes.NewReader(sent)), digest.Of(digest.SHA256, wanted), size)
		got, err := io.ReadAll(r)
		good := bytes.Equal(sent, wanted) && size == int64(len(wanted))
		if good != (err == nil) {
			t.Errorf("%q for %q of size %d: %v", sent, wanted, size, err)
		}
		if !bytes.HasPrefix(sent, got) || err == nil && !bytes.Equal(got, wanted) {
			t.Errorf("%q for %q was delivered as %q", sent, wanted, got)
		}
	})
}
