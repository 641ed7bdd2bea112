package sbom

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// credentials are what stands before the host in an address.
var credentials = regexp.MustCompile(`://[^/\s@]+@`)

// clean bounds text from a file that somebody else wrote, and takes out what
// does not show as itself: control characters, direction marks, broken UTF-8.
// Names and passwords in addresses are nobody's business.
func clean(s string) string {
	const limit = 4096
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
	if strings.Contains(s, "@") {
		s = credentials.ReplaceAllString(s, "://…@")
	}
	return s
}
