// Package oneline recognises text of one line.
//
//	oneline.Is("mirrored daily", 300) // true
//
// Other projects should not import this package: it changes without notice.
package oneline

import (
	"strings"
	"unicode"
)

// Is reports whether text is one line of at most limit bytes, without hidden
// characters, and without spaces at its ends.
func Is(text string, limit int) bool {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) }
	return text != "" && len(text) <= limit && strings.TrimSpace(text) == text && !strings.ContainsFunc(text, hidden)
}
