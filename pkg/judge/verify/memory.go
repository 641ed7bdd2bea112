package verify

import (
	"sync"

	"github.com/sigstore/sigstore-go/pkg/root"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
)

// How much is remembered of each kind: a count, and the bytes that it is
// known by.
const (
	remembered      = 4096
	rememberedBytes = 16 << 20
)

// memory keeps what was proven, so that it is proven once: of a certificate
// that serves many signatures, of an authority that issued many certificates,
// of a checkpoint that covers many entries. It belongs to one [Verifier], so
// to one trust root and one set of thresholds, and a thing is known by the
// exact bytes that it was proven of. Where the time matters, the window within
// which the proof holds is kept with it.
//
// Only what holds is kept. Whatever is refused is refused by the full check,
// with no memory involved.
type memory struct {
	chains  memo[issued] // by the signer's certificate
	leaves  memo[*named] // too
	anchors memo[anchor] // by the authority's place in the trust root, and its name

	alone     bool                         // see [Rules]
	stamping  []root.TimestampingAuthority // each remembers for itself
	witnesses map[string]*witness          // by the hexadecimal identifier; so does each of these
}

// named is a signer's certificate, read, with whom it names. It is kept of one
// with which a signature was proven, and nobody changes it.
type named struct {
	content  sigstore.VerificationContent
	digest   digest.Digest
	identity identity.Identity
	claims   identity.Claims
}

func newMemory(material root.TrustedMaterial) *memory {
	return &memory{stamping: stampers(material), witnesses: witnesses(material)}
}

// memo is a bounded map that is safe for use by several goroutines. Full, it
// forgets everything: what is forgotten is proven again.
type memo[V any] struct {
	mu    sync.Mutex // guards what follows
	kept  map[string]V
	bytes int
}

func (m *memo[V]) find(key []byte) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.kept[string(key)]
	return v, ok
}

func (m *memo[V]) isEmpty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.kept) == 0
}

func (m *memo[V]) keep(key []byte, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil || len(m.kept) >= remembered || m.bytes+len(key) > rememberedBytes {
		m.kept, m.bytes = map[string]V{}, 0
	}
	if _, ok := m.kept[string(key)]; !ok {
		m.bytes += len(key)
	}
	m.kept[string(key)] = v
}
