// Package identity describes signers: an [Identity] is issuer, subject and kind of
// subject, together. A [Matcher] decides whether an identity is the expected one;
// it compares exactly, and an empty one cannot be built.
//
//	m, err := identity.Exact(identity.Identity{
//		Issuer: "https://accounts.example.test", Subject: "release@example.test", Type: identity.Email,
//	})
//	m.Match(evidence.Identity())
package identity

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// SANType is the kind of name that a certificate carries. The same text as an
// e-mail address and as a URI are two different identities.
type SANType string

// The kinds of names that keyless certificates carry.
const (
	Email SANType = "email"
	URI   SANType = "uri"
)

// Key is the kind of name of a long-lived key, which no certificate carries:
// it has no issuer, and its subject is the digest of the public key.
const Key SANType = "key"

// OfKey is the identity of a long-lived key, named by the digest of its public
// key (PKIX, DER). It never equals an identity of a certificate.
func OfKey(public digest.Digest) Identity {
	if public.IsZero() {
		return Identity{}
	}
	return Identity{Subject: public.String(), Type: Key}
}

// Identity is who signed, as the certificate authority saw them.
type Identity struct {
	Issuer  string  `json:"issuer" yaml:"issuer"`
	Subject string  `json:"subject" yaml:"subject"`
	Type    SANType `json:"type" yaml:"type"`
}

// String prints the identity for people.
func (i Identity) String() string {
	if i.Type == Key {
		return "key " + i.Subject
	}
	return fmt.Sprintf("%s (%s, issuer %s)", i.Subject, i.Type, i.Issuer)
}

// Check refuses an identity that could not be a real one.
func (i Identity) Check() error {
	switch {
	case i.Issuer == "":
		return fmt.Errorf("identity: no issuer")
	case i.Subject == "":
		return fmt.Errorf("identity: no subject")
	case i.Type != Email && i.Type != URI:
		return fmt.Errorf("identity %q: type %q, want email or uri", i.Subject, i.Type)
	case !isIssuer(i.Issuer):
		return fmt.Errorf("identity %q: issuer %q, want an https address", i.Subject, i.Issuer)
	case strings.ContainsAny(i.Issuer+i.Subject, "*^$|()[]\\ "):
		return fmt.Errorf("identity %q: want the exact identity, not a pattern", i.Subject)
	}
	return nil
}

// noIssuer is no address, so no provider is called so.
const noIssuer = "none"

// WithoutIssuer is the identity in a certificate that names no issuer, which only
// trust domains without logs have.
func (i Identity) WithoutIssuer() Identity { return Identity{noIssuer, i.Subject, i.Type} }

// isIssuer accepts https, and plain http for this machine only.
func isIssuer(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return address == noIssuer
	}
	return u.Scheme == "https" || u.Scheme == "http" && u.Hostname() == "127.0.0.1"
}

// Matcher matches exactly one identity, or a pattern of subjects of one
// issuer. The zero Matcher matches nothing.
type Matcher struct {
	exact   Identity
	issuer  string
	kind    SANType
	pattern *regexp.Regexp
	text    string
}

// Exact makes the matcher of one identity.
func Exact(i Identity) (Matcher, error) {
	if err := i.Check(); err != nil {
		return Matcher{}, err
	}
	return Matcher{exact: i}, nil
}

// ExactKey makes the matcher of one long-lived key.
func ExactKey(public digest.Digest) (Matcher, error) {
	if public.Algorithm() != digest.SHA256 {
		return Matcher{}, fmt.Errorf("identity: a key is named by its SHA-256 digest")
	}
	return Matcher{exact: OfKey(public)}, nil
}

// Match reports whether i is the expected identity.
func (m Matcher) Match(i Identity) bool {
	if m.pattern != nil {
		return i.Issuer == m.issuer && i.Type == m.kind && m.pattern.MatchString(i.Subject)
	}
	return m.exact != (Identity{}) && m.exact == i
}

// String prints what the matcher matches.
func (m Matcher) String() string {
	switch {
	case m.pattern != nil:
		return fmt.Sprintf("pattern %s (%s, issuer %s)", m.text, m.kind, m.issuer)
	case m.exact == (Identity{}):
		return "no identity"
	}
	return m.exact.String()
}

// Issuer is the identity provider that must have vouched for the subject.
func (m Matcher) Issuer() string {
	if m.pattern != nil {
		return m.issuer
	}
	return m.exact.Issuer
}

// Prefix is how every subject begins that m matches, as far as m says it letter by letter.
func (m Matcher) Prefix() string {
	if m.pattern == nil {
		return m.exact.Subject
	}
	prefix, _ := regexp.MustCompile(strings.TrimPrefix(strings.TrimPrefix(m.text, `\A`), "^")).LiteralPrefix()
	return prefix
}
