package unpack

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestZipDirectory refuses a directory of too many entries before the library
// has read them all, and none of as many as there may be.
func TestZipDirectory(t *testing.T) {
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	const n = 20_000
	for i := range n {
		if _, err := w.Create(fmt.Sprint("a file of some name ", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	walk := func(limit int) (visited int, read int, err error) {
		r := &reads{Reader: bytes.NewReader(buf.Bytes())}
		err = (&Walker{limit: limit}).Archive(r, int64(buf.Len()), func(Entry, io.Reader) error { visited++; return nil })
		return visited, r.n, err
	}
	visited, _, err := walk(n)
	if err != nil || visited != n {
		t.Errorf("as many as may be: %d, %v", visited, err)
	}
	visited, read, err := walk(n / 4)
	var refused *verdict.Error
	if !errors.As(err, &refused) || refused.Finding.Code != verdict.Limit {
		t.Fatalf("too many: %v", err)
	}
	if visited > 0 || read > buf.Len()/2 {
		t.Errorf("%d entries were visited and %d bytes of %d read", visited, read, buf.Len())
	}
}

type reads struct {
	*bytes.Reader
	n int
}

// ReadAt counts.
func (r *reads) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.Reader.ReadAt(p, off)
	r.n += n
	return n, err
}
