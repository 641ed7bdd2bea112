package registry

import (
	"bytes"
	"context"
	"io"
	"os"
	"sync"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// maxInMemory is the size up to which a blob is kept in memory; a larger one
// goes to the disk.
const maxInMemory = 1 << 20

// maxRemembered bounds what is kept in memory together. What is asked for when
// there is no room is read, and not kept.
const maxRemembered = 16 << 20

// Memory is a registry of which each thing is asked once: whoever decides about
// an image and then copies it to several places reads it one time. It is made
// for one image and closed after it. Tags are asked each time, for they move.
type Memory struct {
	src   *Remote
	spool bool

	mu    sync.Mutex // owns the maps, not what they hold
	known map[string]*answered
	named map[string]Descriptor // by tags, when they were asked first
	kept  int64                 // bytes of blobs and manifests in known
}

var _ Source = (*Memory)(nil)

// answered is a question and its answer, which is there when done is closed.
type answered struct {
	done chan struct{}
	d    Descriptor
	raw  []byte
	file *os.File // unnamed, in place of raw
	list []Descriptor
	err  error

	held      bool // its bytes are counted; owned by the mutex of the memory
	abandoned bool // whoever asked was told to stop, which is no answer to the others
}

// Remember returns a memory of src. With a spool, blobs that are too large for
// the memory are kept on the disk until [Memory.Close]; without one they are
// read each time.
func Remember(src *Remote, spool bool) *Memory {
	return &Memory{src: src, spool: spool, known: map[string]*answered{}}
}

// Remote is the registry that is remembered.
func (m *Memory) Remote() *Remote { return m.src }

// Close gives back what is on the disk.
func (m *Memory) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.known {
		if a.file != nil {
			_ = a.file.Close() // it has no name any more
		}
	}
	m.known = map[string]*answered{}
}

// once asks a question if nobody did, and waits for the answer. An error is no
// answer: the next one asks again. So does whoever waited for one that was told
// to stop.
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

// question is the one of that key, and whether it is the caller who asks it.
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
		if err == nil { // what it names need not be read again
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
	if m.named == nil {
		m.named = map[string]Descriptor{}
	}
	if _, asked := m.named[repo+":"+tag]; !asked {
		m.named[repo+":"+tag] = d
	}
}

// Named is what a tag named when it was asked first, if it was: whoever decided
// by it meant that, whatever it names now, and whether it is listed or not.
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
	m.hold(key(repo, d.Digest), a)
	if int64(len(a.raw)) != d.Size {
		return nil, &TamperedError{Place: repo, Digest: d.Digest, Err: &digest.SizeError{Want: d.Size, Got: int64(len(a.raw))}}
	}
	return kept{bytes.NewReader(a.raw)}, nil
}

// hold keeps an answer that was read, if there is room for it.
func (m *Memory) hold(key string, a *answered) {
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

// kept is what was read before.
type kept struct{ *bytes.Reader }

func (k kept) size() int64 { return k.Size() }

// Close implements [io.Closer].
func (kept) Close() error { return nil }

// read reads all of d, which is verified on its way.
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
		return &UnavailableError{Place: os.TempDir(), Op: "keeping " + d.Digest.String(), Err: err}
	}
	_ = os.Remove(file.Name()) // where it cannot go yet, it goes when it is closed, or with the directory
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

// ReferrersOf is [Remote.ReferrersOf], asked once.
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
