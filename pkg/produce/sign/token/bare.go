package token

import "regexp"

// bare is what a JSON Web Token looks like among other words: the beginning of
// a JSON object, twice, in base64, and a signature.
var bare = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`)

// IsBare reports whether a text that should name a token is, or has in it, one
// itself. On a command line everybody on the machine can read it.
func IsBare(text string) bool { return bare.MatchString(text) }

// Hide leaves tokens out of a text that is kept or shown.
func Hide(text string) string { return bare.ReplaceAllString(text, "TOKEN") }
