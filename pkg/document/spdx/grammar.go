package spdx

import (
	"strings"
	"unicode"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
)

// shows requires that a name contains no hidden characters, so that the reader
// of a list of packages sees the actual names.
func (c *checker) shows(name string, at func() string) {
	plain := true // true for almost all names
	for i := range len(name) {
		plain = plain && name[i] >= ' ' && name[i] < 0x7f
	}
	if plain {
		return
	}
	if i := strings.IndexFunc(name, disguises); i >= 0 {
		c.add(ruleName, at(), "the name %s has a control character, or one that turns the direction of the text, at byte %d", quote(name), i)
	}
}

// disguises reports whether a character can make text look like other text:
// control characters, and those that embed, override and isolate a direction.
func disguises(r rune) bool {
	return r < ' ' || r >= 0x7f && (r <= 0x9f || r == unicode.ReplacementChar || unicode.Is(unicode.Bidi_Control, r))
}

// schemeless matches the locations of section 7.7 that are no URI, and the
// address of a host without a scheme, which SPDX' own validators permit.
var schemeless = pattern.Lazy(`^(git\+git@[A-Za-z0-9.-]+:|bzr\+lp:|([A-Za-z0-9-]+\.)+[A-Za-z]{2,}(:[0-9]+)?(/|$))`)

// isLocation checks section 7.7: NONE, NOASSERTION, a URI, or a version control
// location, "git+https://host/path@revision#directory", which is also a URI. An
// SSH address without a scheme, "git@host:path", is not valid.
func isLocation(s string) bool {
	if s == "" || s == none || s == NoAssertion {
		return true // its presence is checked elsewhere
	}
	scheme, rest, found := strings.Cut(s, ":")
	if schemeless().MatchString(s) {
		scheme, rest, found = "https", s, true
	}
	if !found || rest == "" || len(s) > maxLocation || !isScheme(scheme) {
		return false
	}
	if strings.Contains(scheme, "+") && !strings.HasPrefix(rest, "//") {
		return false
	}
	if host, slashes := strings.CutPrefix(rest, "//"); slashes && scheme != "file" && !strings.HasSuffix(scheme, "+file") && strings.Trim(host, "/") == "" {
		return false
	}
	return strings.IndexFunc(rest, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"<>\\^`{|}", r)
	}) < 0
}

// maxLocation is the length of the longest address.
const maxLocation = 16 << 10

// isScheme checks RFC 3986, section 3.1.
func isScheme(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || (s[i] < '0' || s[i] > '9') && strings.IndexByte("+-.", s[i]) < 0) {
			return false
		}
	}
	return s != ""
}
