// Package caller authenticates and authorises callers of the gate service.
//
// A [Book] names the callers and the grants of each. A caller is identified by
// an identity token (OpenID Connect) with exactly one issuer, audience and
// subject, or by the URI in its client certificate. Everything not granted is
// denied: each grant names verbs, sources, destinations and channels.
//
//	book, err := caller.Parse(raw)
//	who, err := book.Token(bearer, keys, now) // or book.Certificate(leaf, now)
//	err = book.May(who, caller.Act{Verb: caller.Promote, From: "staging.example.test/demo", To: "prod.example.test/demo", Channel: caller.NoChannel})
//
// The package uses neither network nor clock: the keys of an issuer and the
// time are arguments.
//
// Other projects should not import this package: it changes without notice.
package caller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Verb is the kind of an action.
type Verb string

// The verbs. None implies another.
const (
	Verify   Verb = "verify"   // ask whether an image would be accepted
	Promote  Verb = "promote"  // ask whether an image may be promoted to a destination, now
	Override Verb = "override" // the same, with exceptions
	Audit    Verb = "audit"    // read past decisions
	Pull     Verb = "pull"     // read a repository through the proxy
	Push     Verb = "push"     // write to it, and read what waits for evidence
)

// NoChannel is the channel of images that belong to none.
const NoChannel = "none"

// Verbs returns all verbs.
func Verbs() []Verb { return []Verb{Verify, Promote, Override, Audit, Pull, Push} }

// Caller is an identity that may use the gate: by a token or by a certificate,
// never both.
type Caller struct {
	Name        string       `yaml:"name"`
	Token       *Token       `yaml:"token"`
	Certificate *Certificate `yaml:"certificate"`
}

// Token is what an identity token must contain.
type Token struct {
	Issuer  string `yaml:"issuer"`
	Subject string `yaml:"subject"`
	// Claims are further required claims with their exact values: for a CI job,
	// for instance, the number of the repository, the workflow and the ref.
	Claims map[string]string `yaml:"claims"`
}

// Certificate is what a client certificate must contain: this URI, and no
// other.
type Certificate struct {
	URI string `yaml:"uri"`
}

// Grant permits actions to one caller. No list may be empty. A name that ends
// with a slash covers everything below it.
type Grant struct {
	Caller   string   `yaml:"caller"`
	Verbs    []Verb   `yaml:"verbs"`
	From     []string `yaml:"from"`
	To       []string `yaml:"to"`
	Channels []string `yaml:"channels"`
}

// Book holds callers and grants. The zero Book has no callers.
type Book struct {
	audience string
	callers  map[string]Caller
	grants   map[string][]Grant
}

// wire is the YAML form of a book.
type wire struct {
	Audience string   `yaml:"audience"` // required audience of every token: the address of this gate
	Callers  []Caller `yaml:"callers"`
	Grants   []Grant  `yaml:"grants"`
}

// Parse parses a book.
func Parse(raw []byte) (Book, error) {
	var w wire
	if err := strictyaml.Unmarshal(raw, &w); err != nil {
		return Book{}, verdict.Wrap(verdict.ConfigParse, "callers", err)
	}
	b := Book{audience: w.Audience, callers: map[string]Caller{}, grants: map[string][]Grant{}}
	if len(w.Callers) == 0 || len(w.Grants) == 0 {
		return Book{}, verdict.Refuse(verdict.ConfigParse, "callers", "callers and grants must not be empty")
	}
	seen := map[string]string{}
	refuseAt := func(list string, i int, format string, args ...any) (Book, error) {
		return Book{}, verdict.Wrap(verdict.ConfigParse, "callers", strictyaml.At(raw, []any{list, i}, "CALLERS_VALUE", fmt.Sprintf(format, args...)))
	}
	for i, c := range w.Callers {
		who, err := c.check(w.Audience)
		switch {
		case err != nil:
			return refuseAt("callers", i, "%v", err)
		case b.callers[c.Name].Name != "":
			return refuseAt("callers", i, "duplicate caller name %q", c.Name)
		case seen[who] != "":
			return refuseAt("callers", i, "callers %q and %q have the same identity", seen[who], c.Name)
		}
		b.callers[c.Name], seen[who] = c, c.Name
	}
	for i, g := range w.Grants {
		if err := g.check(); err != nil {
			return refuseAt("grants", i, "%v", err)
		}
		switch c := b.callers[g.Caller]; {
		case c.Name == "":
			return refuseAt("grants", i, "grant to %q: there is no such caller", g.Caller)
		case c.Certificate != nil && slices.Contains(g.Verbs, Override):
			return refuseAt("grants", i, "grant to %q: the verb override needs a caller with a single-use token, not with a certificate", g.Caller)
		}
		b.grants[g.Caller] = append(b.grants[g.Caller], g)
	}
	for i, c := range w.Callers {
		if len(b.grants[c.Name]) == 0 {
			return refuseAt("callers", i, "caller %q has no grant", c.Name)
		}
	}
	return b, nil
}

var (
	namePattern     = pattern.Lazy(`\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\z`)
	resourcePattern = pattern.Lazy(`\A[a-z0-9][a-z0-9.-]*(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*/?\z`)
	channelPattern  = pattern.Lazy(`\A[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?\z`)
	uriPattern      = pattern.Lazy(`\A[a-z][a-z0-9+.-]*://[[:graph:]]+\z`)
)

// isURI checks a URI. The lengths are not in the patterns, which would take longer
// to compile.
func isURI(s string) bool {
	_, rest, _ := strings.Cut(s, "://")
	return len(rest) <= 1000 && uriPattern().MatchString(s)
}

// check refuses an ambiguous caller, and returns its identity.
func (c Caller) check(audience string) (who string, err error) {
	switch {
	case !namePattern().MatchString(c.Name):
		return "", fmt.Errorf("caller %q: a name consists of lower-case letters, digits and hyphens", c.Name)
	case (c.Token == nil) == (c.Certificate == nil):
		return "", fmt.Errorf("caller %q: want either a token or a certificate", c.Name)
	case c.Certificate != nil && !isURI(c.Certificate.URI):
		return "", fmt.Errorf("caller %q: %q is not a valid certificate URI", c.Name, c.Certificate.URI)
	case c.Certificate != nil:
		return "certificate " + c.Certificate.URI, nil
	case !strings.HasPrefix(c.Token.Issuer, "https://") && !strings.HasPrefix(c.Token.Issuer, "http://127.0.0.1:"):
		return "", fmt.Errorf("caller %q: the issuer %q is not an https address", c.Name, c.Token.Issuer)
	case c.Token.Subject == "":
		return "", fmt.Errorf("caller %q: a subject is required; without one, any identity of the issuer would match", c.Name)
	case audience == "":
		return "", fmt.Errorf("audience: required; set the address of this gate, which every token must name")
	}
	for name, value := range c.Token.Claims {
		if name == "" || value == "" || slices.Contains(reservedClaims(), name) {
			return "", fmt.Errorf("caller %q: claim %q: want a name other than %s, and a value", c.Name, name, strings.Join(reservedClaims(), ", "))
		}
	}
	return "token " + c.Token.Issuer + " " + c.Token.Subject, nil
}

// reservedClaims are the claims with their own checks.
func reservedClaims() []string { return []string{"iss", "aud", "sub", "exp", "nbf", "iat", "jti"} }

func (g Grant) check() error {
	for _, list := range [][]string{g.From, g.To, g.Channels} {
		if len(list) == 0 {
			return fmt.Errorf("grant to %q: verbs, from, to and channels must not be empty", g.Caller)
		}
	}
	if len(g.Verbs) == 0 {
		return fmt.Errorf("grant to %q: verbs must not be empty", g.Caller)
	}
	for _, v := range g.Verbs {
		if !slices.Contains(Verbs(), v) {
			return fmt.Errorf("grant to %q: unknown verb %q", g.Caller, string(v))
		}
	}
	for _, r := range slices.Concat(g.From, g.To) {
		if !IsResource(r) {
			return fmt.Errorf("grant to %q: %q is not a registry or repository", g.Caller, r)
		}
	}
	for _, c := range g.Channels {
		if !channelPattern().MatchString(c) {
			return fmt.Errorf("grant to %q: %q is not a channel name", g.Caller, c)
		}
	}
	return nil
}

// IsResource reports whether a name is that of a registry or a repository, or
// covers those below it.
func IsResource(name string) bool { return resourcePattern().MatchString(name) }

// Principal is an authenticated caller. The zero Principal has no permissions.
type Principal struct {
	name  string
	shown Shown
}

// Name is the caller's name in the book.
func (p Principal) Name() string { return p.name }

// Shown is the token that was used; zero for a certificate.
func (p Principal) Shown() Shown { return p.shown }

// Shown identifies one token: no issuer gives two the same ID.
type Shown struct {
	Issuer, ID string
	// Until is when the token stops being accepted.
	Until time.Time
}

// Act is an action that a caller requests.
type Act struct {
	Verb Verb
	// From and To are repositories, as host/path. For the verb verify, To is
	// the repository of the image.
	From, To string
	Channel  string
}

// May returns an error unless one grant covers the whole action; grants are not
// combined.
func (b Book) May(p Principal, a Act) error {
	if p.name != "" && isRepository(a.From) && isRepository(a.To) {
		for _, g := range b.grants[p.name] {
			if slices.Contains(g.Verbs, a.Verb) && Covers(g.From, a.From) && Covers(g.To, a.To) && slices.Contains(g.Channels, a.Channel) {
				return nil
			}
		}
	}
	return verdict.Refuse(verdict.NotGranted, p.name, "caller %s has no grant to %s images from %.200q to %.200q in channel %.64q", displayName(p.name), string(a.Verb), a.From, a.To, a.Channel)
}

// MayAsk returns an error unless the caller may request some decision.
func (b Book) MayAsk(p Principal) error {
	if p.name != "" && slices.ContainsFunc(b.grants[p.name], func(g Grant) bool {
		return slices.ContainsFunc(g.Verbs, func(v Verb) bool { return v != Audit })
	}) {
		return nil
	}
	return verdict.Refuse(verdict.NotGranted, p.name, "caller %s has no grant to request decisions", displayName(p.name))
}

// Audits returns an error unless the caller may read some decisions. [Book.May]
// checks each decision.
func (b Book) Audits(p Principal) error {
	if p.name != "" && slices.ContainsFunc(b.grants[p.name], func(g Grant) bool { return slices.Contains(g.Verbs, Audit) }) {
		return nil
	}
	return verdict.Refuse(verdict.NotGranted, p.name, "caller %s has no grant to read past decisions", displayName(p.name))
}

func isRepository(name string) bool {
	return IsResource(name) && strings.Contains(name, "/") && !strings.HasSuffix(name, "/")
}

func displayName(name string) string {
	return cmp.Or(name, "(unknown)")
}

// Covers reports whether a repository is in a list, or below an entry.
func Covers(list []string, repository string) bool {
	return slices.ContainsFunc(list, func(r string) bool {
		return r == repository || strings.HasSuffix(r, "/") && strings.HasPrefix(repository, r)
	})
}
