package kubernetes

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Memory is a registry in memory. What a tag names is what Tag said last.
type Memory struct {
	mu        sync.Mutex // owns what follows
	blobs     map[digest.Digest][]byte
	manifests map[string]registry.Descriptor // by "repository@digest"
	tags      map[string]map[string]registry.Descriptor
	referring map[string][]registry.Descriptor // by "repository@digest" of what they refer to
}

// NewMemory returns a registry that holds nothing.
func NewMemory() *Memory {
	return &Memory{blobs: map[digest.Digest][]byte{}, manifests: map[string]registry.Descriptor{}, tags: map[string]map[string]registry.Descriptor{}, referring: map[string][]registry.Descriptor{}}
}

// Clone is a copy whose tags can be changed.
func (m *Memory) Clone() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &Memory{blobs: maps.Clone(m.blobs), manifests: maps.Clone(m.manifests), tags: map[string]map[string]registry.Descriptor{}, referring: maps.Clone(m.referring)}
	for repository, tags := range m.tags {
		c.tags[repository] = maps.Clone(tags)
	}
	return c
}

// Resolve implements [registry.Source].
func (m *Memory) Resolve(_ context.Context, repo, tag string) (registry.Descriptor, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d, there := m.tags[repo][tag]; there {
		return d, nil
	}
	if d, there := m.manifests[repo+"@"+tag]; there {
		return d, nil
	}
	return registry.Descriptor{}, registry.ErrNotFound
}

// Fetch implements [registry.Source].
func (m *Memory) Fetch(_ context.Context, _ string, d registry.Descriptor) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, there := m.blobs[d.Digest]
	if !there {
		return nil, registry.ErrNotFound
	}
	return io.NopCloser(digest.NewVerifyingReader(bytes.NewReader(b), d.Digest, d.Size)), nil
}

// Referrers implements [registry.Source].
func (m *Memory) Referrers(_ context.Context, repo string, d digest.Digest) ([]registry.Descriptor, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.referring[repo+"@"+d.String()]), nil
}

// Tags implements [registry.Source].
func (m *Memory) Tags(_ context.Context, repo string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.tags[repo])), nil
}

// PushBlob implements [registry.Sink].
func (m *Memory) PushBlob(_ context.Context, _ string, d registry.Descriptor, open func() (io.ReadCloser, error)) error {
	body, err := open()
	if err != nil {
		return err
	}
	defer body.Close()
	b, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blobs[d.Digest] = b
	return nil
}

// PushManifest implements [registry.Sink].
func (m *Memory) PushManifest(_ context.Context, repo string, d registry.Descriptor, raw []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blobs[d.Digest], m.manifests[repo+"@"+d.Digest.String()] = raw, d
	if of, referrer := referrerOf(d, raw); of != "" {
		m.referring[repo+"@"+of] = append(m.referring[repo+"@"+of], referrer)
	}
	return nil
}

// Tag implements [registry.Sink].
func (m *Memory) Tag(_ context.Context, repo, tag string, d registry.Descriptor) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, there := m.blobs[d.Digest]; !there {
		return fmt.Errorf("tagging %s:%s: %w", repo, tag, registry.ErrNotFound)
	}
	if m.tags[repo] == nil {
		m.tags[repo] = map[string]registry.Descriptor{}
	}
	m.tags[repo][tag] = d
	return nil
}
