package gate

import (
	"cmp"
	"context"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/judge/census"
	"github.com/waybill-release/waybill/pkg/tool/order"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// hashing reads the files of a place.
type hashing struct {
	place store.Place
	// all computes every digest, not only SHA-256.
	all     bool
	options Options
	// left is how many more bytes may be read of all files together, if their
	// sizes are unsigned; nil for no limit.
	left *atomic.Int64
}

// sum hashes the named objects, biggest first, on all processors, up to the
// limit for each. Items and errors have the order of the objects.
func (h hashing) sum(ctx context.Context, objects []store.Object, names map[string]bool, most func(store.Object) int64) ([]census.Item, []error) {
	order.Sort(objects, func(a, b store.Object) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Name, b.Name))
	})
	p := Progress{What: "hashing", Unit: "files"}
	for _, o := range objects {
		if names[o.Name] {
			p.OfBytes += o.Size
			p.OfFiles++
		}
	}
	items, errs := make([]census.Item, len(objects)), make([]error, len(objects))
	watched := h.options.watch(p)
	var listed []int // indexes of objects
	for i, o := range objects {
		items[i] = census.Item{Name: o.Name, Size: o.Size}
		if names[o.Name] {
			listed = append(listed, i)
		}
	}
	digest.Many{
		Open: func(k int) (io.ReadCloser, error) {
			o := objects[listed[k]]
			return h.open(ctx, watched, o.Name, most(o))
		},
		Done: func(k int, set digest.Set, size int64, err error) {
			i := listed[k]
			items[i].Digests, items[i].Size = set, size
			if errs[i] = err; err == nil && size > most(objects[i]) {
				errs[i] = verdict.Refuse(verdict.Tampered, items[i].Name, "the file has more than the %d bytes that were signed", most(objects[i]))
			}
			watched.add(0, 1)
		},
		Workers:    runtime.GOMAXPROCS(0),
		SHA256Only: !h.all,
	}.Sum(len(listed))
	return items, errs
}

// open opens one file, limited to its largest possible size, since a place can
// send endless bytes.
func (h hashing) open(ctx context.Context, p *progress, name string, largest int64) (io.ReadCloser, error) {
	body, _, err := h.place.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	src := io.LimitReader(body, largest+1)
	if h.left != nil {
		src = rationed{src, h.left}
	}
	return struct {
		io.Reader
		io.Closer
	}{p.reader(src), body}, nil
}

// rationed stops reading when the limit that it shares with other readers is
// used up.
type rationed struct {
	io.Reader
	left *atomic.Int64
}

// Read implements [io.Reader].
func (r rationed) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if r.left.Add(-int64(n)) < 0 {
		return 0, verdict.Refuse(verdict.Limit, "files", "the files together exceed %d bytes, the limit for a release without signed sizes", int64(maxUnsealedSum))
	}
	return n, err
}

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
