package sbom

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// credentials matches user and password in an address.
var credentials = regexp.MustCompile(`://[^/\s@]+@`)

// clean bounds foreign text, and removes what is invisible: control characters,
// direction marks, broken UTF-8. Credentials in addresses are removed as well.
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
