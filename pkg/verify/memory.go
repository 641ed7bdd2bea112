package verify

import (
	"crypto/x509"
	"sync"
	"time"
)

// remembered bounds how many certificates are kept.
const remembered = 4096

// memory keeps what was proven about certificates, by their exact bytes, so
// that a certificate that serves many signatures is proven once. A chain is
// only taken over for a time within the window that was proven with it.
type memory struct {
	mu     sync.Mutex // guards both maps
	chains map[string]issued
	scts   map[string]bool
}

func newMemory() *memory {
	return &memory{chains: map[string]issued{}, scts: map[string]bool{}}
}

func (m *memory) chain(leaf *x509.Certificate, t time.Time) (issued, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, ok := m.chains[string(leaf.Raw)]
	return i, ok && !t.Before(i.from) && !t.After(i.until)
}

func (m *memory) keepChain(leaf *x509.Certificate, i issued) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.chains) >= remembered {
		clear(m.chains)
	}
	m.chains[string(leaf.Raw)] = i
}

// published reports whether the certificate's SCTs were proven under the same
// issuer.
func (m *memory) published(leaf *x509.Certificate, chains [][]*x509.Certificate) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.scts[sctKey(leaf, chains)]
}

func (m *memory) keepPublished(leaf *x509.Certificate, chains [][]*x509.Certificate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.scts) >= remembered {
		clear(m.scts)
	}
	m.scts[sctKey(leaf, chains)] = true
}

func sctKey(leaf *x509.Certificate, chains [][]*x509.Certificate) string {
	key := string(leaf.Raw)
	if len(chains) > 0 && len(chains[0]) > 1 {
		key += string(chains[0][1].Raw)
	}
	return key
}
