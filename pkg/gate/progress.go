package gate

import (
	"io"
	"sync"
)

// Progress is how far one part of a decision has come.
type Progress struct {
	// What is being done, and Unit to what: "hashing", "files".
	What, Unit     string
	Bytes, OfBytes int64
	Files, OfFiles int // of the unit
}

// progress reports Progress from several goroutines.
type progress struct {
	mu   sync.Mutex // guards Progress, and keeps the reports in order
	tell func(Progress)
	Progress
}

// watch reports a part of the decision, from its beginning.
func (o Options) watch(part Progress) *progress {
	p := &progress{tell: o.Progress, Progress: part}
	if part.OfFiles > 0 {
		p.add(0, 0)
	}
	return p
}

// add reports bytes and files that are done.
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
