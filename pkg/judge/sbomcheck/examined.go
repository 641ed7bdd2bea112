package sbomcheck

import (
	"sync"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Examined remembers, for one run of one program, which documents were made of
// which bytes, or held against them and found true. An act that follows another
// in the same run need not take an artifact apart again: it hashes the bytes,
// and asks with the digest that it finds. Nothing is ever written down, so
// nobody can say in its place that something was examined.
//
// The zero value knows of nothing, and so does a nil pointer.
type Examined struct {
	mu     sync.Mutex // guards agreed: artifacts are examined side by side
	agreed map[examination]bool
}

type examination struct {
	name            string
	bytes, document digest.Digest
}

// Agree remembers that a document says what is in these bytes.
func (e *Examined) Agree(name string, bytes, document digest.Digest) {
	if e == nil || bytes.IsZero() || document.IsZero() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.agreed == nil {
		e.agreed = map[examination]bool{}
	}
	e.agreed[examination{name, bytes, document}] = true
}

// Agreed reports whether the very document was held against the very bytes,
// under this name.
func (e *Examined) Agreed(name string, bytes, document digest.Digest) bool {
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.agreed[examination{name, bytes, document}]
}
