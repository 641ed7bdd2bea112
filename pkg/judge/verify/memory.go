package verify

import (
	"sync"

	"github.com/sigstore/sigstore-go/pkg/root"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
)

// The limits of the memory for each kind: a count, and the bytes of the keys.
const (
	remembered      = 4096
	rememberedBytes = 16 << 20
)

// memory caches what was proven, so that it is proven once: for a certificate
// with many signatures, an authority that issued many certificates, a
// checkpoint that covers many entries. It belongs to one [Verifier], so to one
// trust root and one set of thresholds, and every key is the exact bytes that
// were proven. Where the time matters, the window in which the proof is valid
// is stored too.
//
// Only acceptances are cached. Every refusal comes from the full check, without
// the cache.
type memory struct {
	chains  memo[issued] // by the signer's certificate
	leaves  memo[*named] // also by the signer's certificate
	anchors memo[anchor] // by the authority's index in the trust root, and its name

	alone    bool                         // see [Rules]
	stamping []root.TimestampingAuthority // each has its own cache
	logs     map[string]*logKey           // by hexadecimal identifier; so are the logs in each
}

// named is a parsed signer's certificate with its identity. It is kept once a
// signature was proven with it, and never changed.
type named struct {
	content  sigstore.VerificationContent
	digest   digest.Digest
	identity identity.Identity
	claims   identity.Claims
}

func newMemory(material root.TrustedMaterial) *memory {
	return &memory{stamping: stampers(material), logs: logKeys(material)}
}

// memo is a bounded map that is safe for concurrent use. When full, it drops
// all entries; they are then proven again.
type memo[V any] struct {
	mu    sync.Mutex // guards the following fields
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
