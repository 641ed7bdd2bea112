package sbomcheck

import (
	"sync"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Examined remembers, for one run of the program, which documents were made
// from which bytes or compared with them successfully. A later step of the same
// run need not unpack an artifact again: it hashes the bytes and asks with the
// digest. The memory is never written to disk, so it cannot be forged.
//
// The zero value is empty, and so is a nil pointer.
type Examined struct {
	mu     sync.Mutex // guards agreed: artifacts are examined concurrently
	agreed map[examination]bool
}

type examination struct {
	name            string
	bytes, document digest.Digest
}

// Agree records that a document describes these bytes correctly.
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

// Agreed reports whether this document was compared with these bytes under this
// name.
func (e *Examined) Agreed(name string, bytes, document digest.Digest) bool {
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.agreed[examination{name, bytes, document}]
}
