// Package redact removes secrets from texts that are shown or stored: log
// lines, errors, command lines, span attributes.
//
// It recognizes secrets by their form, because the author of a line rarely
// knows that it contains one: identity tokens, private keys, tokens of hosts
// and clouds with a known prefix, the values of Authorization and Cookie, the
// part before the @ of a URL or, with a password, of an image, the signature of
// a presigned URL, and assignments to names such as password or token. It does
// not find secrets in other forms, so it does not replace the rule never to log
// one.
//
//	redact.Secrets("cloning https://ci:hunter2@git.example.test/lantern")
//	// cloning https://[redacted]@git.example.test/lantern
//
// Other projects should not import this package: it changes without notice.
package redact

import (
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
)

// Mark replaces a secret.
const Mark = "[redacted]"

// shapes matches secrets.
var shapes = pattern.Lazy(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*` +
	`|-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*` +
	`|\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}|(?:AKIA|ASIA)[A-Z0-9]{16}|ya29\.[A-Za-z0-9_-]{16,}|xox[abpr]-[A-Za-z0-9-]{10,})` +
	`|\b(?i:authorization)"?[:=] *"?(?:(?i:bearer|basic) +)?[A-Za-z0-9._~+/=-]{8,}` +
	`|\b(?i:bearer) +[A-Za-z0-9._~+/=-]{20,}` +
	`|\b(?i:basic) +[A-Za-z+/]{2,}[0-9=][A-Za-z0-9+/=]{4,}` + // of a password; words have no digits
	`|\b(?i:cookie)"?: *[^\r\n]+` +
	`|\b[A-Za-z0-9_]*(?i:password|passwd|secret|token|api_?key|access_?key)=[^\s"'&]{4,}` +
	`|\b(?i:X-(?:Goog|Amz)-Signature=[0-9a-f]{16,}|sig=[A-Za-z0-9%+/_=-]{24,})`) // of a presigned URL

// userinfo is the part before the @ of a URL: a name with a password, or
// anything in a web address, where a single name is a token. One slash of two
// may be missing where an address was cleaned like a path.
var userinfo = pattern.Lazy(`(https?:/{1,2})[^\s/@"'<>]+@|(://)[^\s/:@"'<>]+:[^\s/@"'<>]+@`)

// login is a name with a password before the host of an image, which has no
// scheme. A reference with a digest has no path after the @.
var login = pattern.Lazy(`(^|[\s"'(=])[^\s/:@"'<>(=]+:[^\s/@"'<>]+@([A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]+)?/)`)

// signs are substrings without which a text cannot contain a secret. The
// pattern search is slow, and a build step may write a gigabyte. They are in
// lower case.
func signs() []string {
	return []string{"eyj", "-----begin", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "akia", "asia", "ya29.", "xox",
		"authorization", "bearer", "basic", "cookie", "passw", "secret=", "token=", "key=",
		"signature=", "sig="}
}

// Secrets removes everything that looks like a secret.
func Secrets(text string) string {
	if strings.Contains(text, ":/") && strings.Contains(text, "@") {
		text = userinfo().ReplaceAllString(text, "${1}${2}"+Mark+"@")
	}
	if strings.Contains(text, "@") && strings.Contains(text, "/") {
		text = login().ReplaceAllString(text, "${1}"+Mark+"@${2}")
	}
	lower := strings.ToLower(text)
	if !slices.ContainsFunc(signs(), func(sign string) bool { return strings.Contains(lower, sign) }) {
		return text
	}
	return shapes().ReplaceAllString(text, Mark)
}
