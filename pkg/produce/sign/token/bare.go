package token

import "regexp"

// tokenPattern matches a JSON Web Token within other text: the beginning of a JSON
// object, twice, in base64, and a signature.
var tokenPattern = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`)

// IsBare reports whether a text that should name a token contains a token
// itself. On a command line every account of the machine can read it.
func IsBare(text string) bool { return tokenPattern.MatchString(text) }

// Hide replaces tokens in a text that is stored or shown.
func Hide(text string) string { return tokenPattern.ReplaceAllString(text, "TOKEN") }
