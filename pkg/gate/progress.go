package gate

import (
	"io"
	"sync"
)

// Progress is how far the hashing of a place has come.
type Progress struct {
	Bytes, OfBytes int64
	Files, OfFiles int
}

// progress reports Progress from several goroutines.
type progress struct {
	mu   sync.Mutex // guards Progress, and keeps the reports in order
	tell func(Progress)
	Progress
}

// add reports bytes and files that were hashed.
func (p *progress) add(bytes int64, files int) {
	if p.tell == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Bytes += bytes
	p.Files += files
	p.tell(p.Progress)
}

// reader reports the bytes that are read through it.
func (p *progress) reader(r io.Reader) io.Reader {
	if p.tell == nil {
		return r
	}
	return watched{r, p}
}

type watched struct {
	io.Reader
	p *progress
}

// Read implements [io.Reader].
func (w watched) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	w.p.add(int64(n), 0)
	return n, err
}
