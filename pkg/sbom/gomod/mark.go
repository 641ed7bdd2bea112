package gomod

import (
	"bytes"
	"io"
)

// IsGo reports whether an executable has a mark of the Go linker, such as a
// build id or the name of a runtime function. A truncated or overwritten
// program still has some of them.
func IsGo(r io.ReaderAt) bool {
	marks := [][]byte{
		[]byte("\xff Go build"), []byte("gopclntab"), []byte("runtime.morestack"),
		[]byte("\x04\x00\x00\x00Go\x00\x00"), []byte("\x00\x00\x00\x04Go\x00\x00"), // the note of ELF
	}
	const overlap = 32 // no mark is longer
	buf := make([]byte, 256<<10)
	for at := int64(0); ; at += int64(len(buf) - overlap) {
		n, err := r.ReadAt(buf, at)
		for _, mark := range marks {
			if bytes.Contains(buf[:n], mark) {
				return true
			}
		}
		if err != nil || n < len(buf) {
			return false
		}
	}
}
