package registry

import (
	"bytes"
	"context"
	"io"
	"os"
	"sync"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxInMemory is the largest blob kept in memory; larger ones go to disk.
const maxInMemory = 1 << 20

// maxRemembered bounds the total kept in memory. What does not fit is read and
// not kept.
const maxRemembered = 16 << 20

// Memory caches a registry, so that each object is requested once: an image
// that is judged and then copied to several places is read one time. It is made
// for one image and closed after it. Tags can move and are requested each time.
type Memory struct {
	src   *Remote
	spool bool

	mu    sync.Mutex // guards the maps, not their values
	known map[string]*answered
	named map[string]Descriptor // the first answer for each tag
	kept  int64                 // bytes of the blobs and manifests in known
}

var _ Source = (*Memory)(nil)

// answered is a request and its answer, valid once done is closed.
type answered struct {
	done chan struct{}
	d    Descriptor
	raw  []byte
	file *os.File // an unlinked file, instead of raw
	list []Descriptor
	err  error

	held      bool // its bytes are counted; guarded by the memory's mutex
	abandoned bool // the first caller was cancelled, which is no answer for the others
}

// Remember returns a cache of src. With a spool, blobs too large for memory are
// cached on disk until [Memory.Close]; without one they are read each time.
func Remember(src *Remote, spool bool) *Memory {
	return &Memory{src: src, spool: spool, known: map[string]*answered{}, named: map[string]Descriptor{}}
}

// Remote is the registry behind the cache.
func (m *Memory) Remote() *Remote { return m.src }

// Close frees the disk space.
func (m *Memory) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.known {
		if a.file != nil {
			_ = a.file.Close() // the file is unlinked already
		}
	}
	m.known = map[string]*answered{}
}

// once sends a request if no caller did, and otherwise waits for the answer.
// Errors are not cached: the next caller tries again, and so does a waiter if
// the first caller was cancelled.
func (m *Memory) once(ctx context.Context, key string, ask func(*answered) error) (*answered, error) {
	for {
		a, mine := m.question(key)
		if mine {
			if a.err = ask(a); a.err != nil {
				a.abandoned = ctx.Err() != nil
				m.forget(key)
			}
			close(a.done)
			return a, a.err
		}
		select {
		case <-a.done:
			if !a.abandoned {
				return a, a.err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// question returns the request with that key, and whether the caller must send
// it.
func (m *Memory) question(key string) (a *answered, mine bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, asked := m.known[key]
	if !asked {
		a = &answered{done: make(chan struct{})}
		m.known[key] = a
	}
	return a, !asked
}

func (m *Memory) forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, key)
}

// Resolve implements [Source].
func (m *Memory) Resolve(ctx context.Context, repo, tag string) (Descriptor, error) {
	want, byDigest := asDigest(tag)
	if !byDigest {
		d, raw, err := m.src.Manifest(ctx, repo, tag)
		if err == nil { // the manifest that the tag names need not be read again
			m.name(repo, tag, d)
			_, err = m.once(ctx, key(repo, d.Digest), func(a *answered) error { a.d, a.raw = d, raw; return nil })
		}
		return d, err
	}
	a, err := m.once(ctx, key(repo, want), func(a *answered) (err error) {
		a.d, a.raw, err = m.src.Manifest(ctx, repo, tag)
		return err
	})
	if err != nil {
		return Descriptor{}, err
	}
	return a.d, nil
}

func (m *Memory) name(repo, tag string, d Descriptor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, asked := m.named[repo+":"+tag]; !asked {
		m.named[repo+":"+tag] = d
	}
}

// Named returns what a tag named when it was first resolved, if it was: a
// decision refers to that digest, even if the tag moved since or is not listed.
func (m *Memory) Named(repo, tag string) (Descriptor, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, asked := m.named[repo+":"+tag]
	return d, asked
}

func key(repo string, d digest.Digest) string { return repo + "@" + d.String() }

// Fetch implements [Source].
func (m *Memory) Fetch(ctx context.Context, repo string, d Descriptor) (io.ReadCloser, error) {
	if d.Size > maxInMemory && !m.spool {
		return m.src.Fetch(ctx, repo, d)
	}
	a, err := m.once(ctx, key(repo, d.Digest), func(a *answered) error { return m.read(ctx, repo, d, a) })
	if err != nil {
		return nil, err
	}
	if a.file != nil {
		return io.NopCloser(io.NewSectionReader(a.file, 0, d.Size)), nil
	}
	m.cache(key(repo, d.Digest), a)
	if int64(len(a.raw)) != d.Size {
		return nil, tampered(repo, d.Digest, &digest.SizeError{Want: d.Size, Got: int64(len(a.raw))})
	}
	return cached{bytes.NewReader(a.raw)}, nil
}

// cache caches an answer if there is room.
func (m *Memory) cache(key string, a *answered) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.held || m.known[key] != a {
		return
	}
	if size := int64(len(a.raw)); m.kept+size <= maxRemembered {
		a.held = true
		m.kept += size
		return
	}
	delete(m.known, key)
}

type cached struct{ *bytes.Reader }

func (k cached) size() int64 { return k.Size() }

// Close implements [io.Closer].
func (cached) Close() error { return nil }

// read reads all of d and verifies its digest.
func (m *Memory) read(ctx context.Context, repo string, d Descriptor, a *answered) error {
	body, err := m.src.Fetch(ctx, repo, d)
	if err != nil {
		return err
	}
	if d.Size <= maxInMemory {
		a.d = d
		a.raw, err = fetchAll(body)
		return err
	}
	defer body.Close()
	file, err := os.CreateTemp("", "waybill-blob-")
	if err != nil {
		return &verdict.UnavailableError{Place: os.TempDir(), Op: "keeping " + d.Digest.String(), Err: err}
	}
	_ = os.Remove(file.Name()) // systems that cannot unlink an open file remove it on close, or with the directory
	if _, err := io.Copy(file, body); err != nil {
		_ = file.Close()
		return err
	}
	a.d, a.file = d, file
	return nil
}

// Referrers implements [Source].
func (m *Memory) Referrers(ctx context.Context, repo string, d digest.Digest) ([]Descriptor, error) {
	a, err := m.once(ctx, "referrers of "+key(repo, d), func(a *answered) (err error) {
		a.list, err = m.src.Referrers(ctx, repo, d)
		return err
	})
	if err != nil {
		return nil, err
	}
	return a.list, nil
}

// ReferrersOf is a cached [Remote.ReferrersOf].
func (m *Memory) ReferrersOf(ctx context.Context, repo string, d digest.Digest, kind string) ([]Descriptor, error) {
	a, err := m.once(ctx, kind+" referrers of "+key(repo, d), func(a *answered) (err error) {
		a.list, err = m.src.ReferrersOf(ctx, repo, d, kind)
		return err
	})
	if err != nil {
		return nil, err
	}
	return a.list, nil
}

// Tags implements [Source].
func (m *Memory) Tags(ctx context.Context, repo string) ([]string, error) {
	return m.src.Tags(ctx, repo)
}
