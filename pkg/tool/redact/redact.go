// Package redact takes secrets out of texts that are shown or kept: lines of
// logs, errors, command lines, what a span says of itself.
//
// It knows them by their shape, because whoever writes a line rarely knows that
// one is in it: identity tokens, private keys, the tokens of hosts and clouds
// that carry a mark of their own, the values of Authorization and Cookie, what
// stands before the @ of a URL or, with a password, of an image, the signature of one that was signed for whoever
// has it, and assignments to what is called a password or a token. A secret of no such shape is not found: nothing here replaces not
// logging one.
//
//	redact.Secrets("cloning https://ci:hunter2@git.example.test/lantern")
//	// cloning https://[redacted]@git.example.test/lantern
package redact

import (
	"regexp"
	"slices"
	"strings"
)

// Mark stands where a secret stood.
const Mark = "[redacted]"

// shapes find secrets.
var shapes = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*` +
	`|-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*` +
	`|\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}|(?:AKIA|ASIA)[A-Z0-9]{16}|ya29\.[A-Za-z0-9_-]{16,}|xox[abpr]-[A-Za-z0-9-]{10,})` +
	`|\b(?i:authorization)"?[:=] *"?(?:(?i:bearer|basic) +)?[A-Za-z0-9._~+/=-]{8,}` +
	`|\b(?i:bearer) +[A-Za-z0-9._~+/=-]{20,}` +
	`|\b(?i:basic) +[A-Za-z+/]{2,}[0-9=][A-Za-z0-9+/=]{4,}` + // of a password; words have no digits
	`|\b(?i:cookie)"?: *[^\r\n]+` +
	`|\b[A-Za-z0-9_]*(?i:password|passwd|secret|token|api_?key|access_?key)=[^\s"'&]{4,}` +
	`|\b(?i:X-(?:Goog|Amz)-Signature=[0-9a-f]{16,}|sig=[A-Za-z0-9%+/_=-]{24,})`) // of an address that lets in whoever has it

// userinfo is what stands before the @ of a URL: a name with a password, or
// whatever a web address has, for there a name alone is a token. One slash is
// left of two where an address was cleaned like a path.
var userinfo = regexp.MustCompile(`(https?:/{1,2})[^\s/@"'<>]+@|(://)[^\s/:@"'<>]+:[^\s/@"'<>]+@`)

// login is a name with a password before the host of an image, which has no
// scheme. What names a digest there has no path behind it.
var login = regexp.MustCompile(`(^|[\s"'(=])[^\s/:@"'<>(=]+:[^\s/@"'<>]+@([A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]+)?/)`)

// signs are what a text must hold to be worth looking at by pattern, which is
// slow: a step of a build may write a gigabyte. They are in lower case.
func signs() []string {
	return []string{"eyj", "-----begin", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "akia", "asia", "ya29.", "xox",
		"authorization", "bearer", "basic", "cookie", "passw", "secret=", "token=", "key=",
		"signature=", "sig="}
}

// Secrets takes out what looks like one.
func Secrets(text string) string {
	if strings.Contains(text, ":/") && strings.Contains(text, "@") {
		text = userinfo.ReplaceAllString(text, "${1}${2}"+Mark+"@")
	}
	if strings.Contains(text, "@") && strings.Contains(text, "/") {
		text = login.ReplaceAllString(text, "${1}"+Mark+"@${2}")
	}
	lower := strings.ToLower(text)
	if !slices.ContainsFunc(signs(), func(sign string) bool { return strings.Contains(lower, sign) }) {
		return text
	}
	return shapes.ReplaceAllString(text, Mark)
}
