// Package caller says who asks a gate that is a service, and what they may ask.
//
// A [Book] names the callers and what is granted to each. A caller is known by
// an identity token (OpenID Connect) with exactly one issuer, audience and
// subject, or by the URI in a certificate that it shows; there is nobody else.
// What is not granted is denied: each grant is for verbs, for sources, for
// destinations and for channels, all of which must be named.
//
//	book, err := caller.Parse(raw)
//	who, err := book.Token(bearer, keys, now) // or book.Certificate(leaf, now)
//	err = book.May(who, caller.Act{Verb: caller.Promote, From: "staging.example.test/demo", To: "prod.example.test/demo", Channel: caller.NoChannel})
//
// The package asks nobody and has no clock: the keys of an issuer and the time
// are arguments.
package caller

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Verb is what a caller wants.
type Verb string

// The verbs. One never implies another.
const (
	Verify   Verb = "verify"   // to know whether an image would be accepted
	Promote  Verb = "promote"  // to know whether it may go to a destination, now
	Override Verb = "override" // the same, with exceptions
	Audit    Verb = "audit"    // to read what was decided
)

// NoChannel is the channel of what goes to none.
const NoChannel = "none"

// Verbs are all verbs.
func Verbs() []Verb { return []Verb{Verify, Promote, Override, Audit} }

// Caller is somebody who may ask: by a token, or by a certificate, never both.
type Caller struct {
	Name        string       `yaml:"name"`
	Token       *Token       `yaml:"token"`
	Certificate *Certificate `yaml:"certificate"`
}

// Token is what an identity token must say.
type Token struct {
	Issuer  string `yaml:"issuer"`
	Subject string `yaml:"subject"`
	// Claims are others that it must have, word for word: of a CI, that is which
	// repository by its number, which workflow and which ref.
	Claims map[string]string `yaml:"claims"`
}

// Certificate is what a client certificate must name: one URI, and no other.
type Certificate struct {
	URI string `yaml:"uri"`
}

// Grant lets one caller do something. No list may be empty. A name that ends
// with a slash stands for everything below it.
type Grant struct {
	Caller   string   `yaml:"caller"`
	Verbs    []Verb   `yaml:"verbs"`
	From     []string `yaml:"from"`
	To       []string `yaml:"to"`
	Channels []string `yaml:"channels"`
}

// Book is who may ask what. The zero Book knows nobody.
type Book struct {
	audience string
	callers  map[string]Caller
	grants   map[string][]Grant
}

// wire is the form in which a book is written.
type wire struct {
	Audience string   `yaml:"audience"` // of every token: the address of this gate
	Callers  []Caller `yaml:"callers"`
	Grants   []Grant  `yaml:"grants"`
}

// Parse reads a book.
func Parse(raw []byte) (Book, error) {
	var w wire
	if err := strictyaml.Unmarshal(raw, &w); err != nil {
		return Book{}, verdict.Wrap(verdict.ConfigParse, "callers", err)
	}
	b := Book{audience: w.Audience, callers: map[string]Caller{}, grants: map[string][]Grant{}}
	if len(w.Callers) == 0 || len(w.Grants) == 0 {
		return Book{}, verdict.Refuse(verdict.ConfigParse, "callers", "callers and grants: want at least one of each")
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
			return refuseAt("callers", i, "two callers are named %q", c.Name)
		case seen[who] != "":
			return refuseAt("callers", i, "%q and %q cannot be told apart", seen[who], c.Name)
		}
		b.callers[c.Name], seen[who] = c, c.Name
	}
	for i, g := range w.Grants {
		if err := g.check(); err != nil {
			return refuseAt("grants", i, "%v", err)
		}
		switch c := b.callers[g.Caller]; {
		case c.Name == "":
			return refuseAt("grants", i, "caller %q is not listed under callers", g.Caller)
		case c.Certificate != nil && slices.Contains(g.Verbs, Override):
			return refuseAt("grants", i, "grant to %q: an override is asked for with a token, which is used up; a certificate is not", g.Caller)
		}
		b.grants[g.Caller] = append(b.grants[g.Caller], g)
	}
	for i, c := range w.Callers {
		if len(b.grants[c.Name]) == 0 {
			return refuseAt("callers", i, "nothing is granted to %q", c.Name)
		}
	}
	return b, nil
}

var (
	namePattern     = regexp.MustCompile(`\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\z`)
	resourcePattern = regexp.MustCompile(`\A[a-z0-9][a-z0-9.-]*(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*/?\z`)
	channelPattern  = regexp.MustCompile(`\A[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?\z`)
	uriPattern      = regexp.MustCompile(`\A[a-z][a-z0-9+.-]*://[[:graph:]]{1,1000}\z`)
)

// check refuses a caller that could be anybody, and returns what tells it from
// the others.
func (c Caller) check(audience string) (who string, err error) {
	switch {
	case !namePattern.MatchString(c.Name):
		return "", fmt.Errorf("caller %q: a name has lower-case letters, digits and hyphens", c.Name)
	case (c.Token == nil) == (c.Certificate == nil):
		return "", fmt.Errorf("caller %q: want a token or a certificate", c.Name)
	case c.Certificate != nil && !uriPattern.MatchString(c.Certificate.URI):
		return "", fmt.Errorf("caller %q: %q is no URI of a certificate", c.Name, c.Certificate.URI)
	case c.Certificate != nil:
		return "certificate " + c.Certificate.URI, nil
	case !strings.HasPrefix(c.Token.Issuer, "https://") && !strings.HasPrefix(c.Token.Issuer, "http://127.0.0.1:"):
		return "", fmt.Errorf("caller %q: the issuer %q is not at an https address", c.Name, c.Token.Issuer)
	case c.Token.Subject == "":
		return "", fmt.Errorf("caller %q: without a subject it would be everybody whom the issuer knows", c.Name)
	case audience == "":
		return "", fmt.Errorf("audience: want the address of this gate, which every token must be for")
	}
	for name, value := range c.Token.Claims {
		if name == "" || value == "" || slices.Contains(reservedClaims(), name) {
			return "", fmt.Errorf("caller %q: claim %q: want a name, a value, and none of %s", c.Name, name, strings.Join(reservedClaims(), ", "))
		}
	}
	return "token " + c.Token.Issuer + " " + c.Token.Subject, nil
}

// reservedClaims are asked of every token in their own way.
func reservedClaims() []string { return []string{"iss", "aud", "sub", "exp", "nbf", "iat", "jti"} }

func (g Grant) check() error {
	for _, list := range [][]string{g.From, g.To, g.Channels} {
		if len(list) == 0 {
			return fmt.Errorf("grant to %q: want verbs, from, to and channels", g.Caller)
		}
	}
	if len(g.Verbs) == 0 {
		return fmt.Errorf("grant to %q: want verbs", g.Caller)
	}
	for _, v := range g.Verbs {
		if !slices.Contains(Verbs(), v) {
			return fmt.Errorf("grant to %q: unknown verb %q", g.Caller, string(v))
		}
	}
	for _, r := range slices.Concat(g.From, g.To) {
		if !resourcePattern.MatchString(r) {
			return fmt.Errorf("grant to %q: %q is no registry or repository", g.Caller, r)
		}
	}
	for _, c := range g.Channels {
		if !channelPattern.MatchString(c) {
			return fmt.Errorf("grant to %q: %q is no channel", g.Caller, c)
		}
	}
	return nil
}

// Principal is a caller who was recognised. The zero Principal may nothing.
type Principal struct {
	name  string
	shown Shown
}

// Name is the caller's name in the book.
func (p Principal) Name() string { return p.name }

// Shown is the token that was shown; zero where it was a certificate.
func (p Principal) Shown() Shown { return p.shown }

// Shown names one token: no issuer gives two the same ID.
type Shown struct {
	Issuer, ID string
	// Until is from when on nobody is recognised by it.
	Until time.Time
}

// Act is what a caller asks for.
type Act struct {
	Verb Verb
	// From and To are repositories, as host/path. Who only wants to know whether
	// an image would be accepted asks about going to where it is.
	From, To string
	Channel  string
}

// May reports by an error that an act is not granted. All of it must be by one
// grant: nobody combines two.
func (b Book) May(p Principal, a Act) error {
	if p.name != "" && isRepository(a.From) && isRepository(a.To) {
		for _, g := range b.grants[p.name] {
			if slices.Contains(g.Verbs, a.Verb) && covers(g.From, a.From) && covers(g.To, a.To) && slices.Contains(g.Channels, a.Channel) {
				return nil
			}
		}
	}
	return verdict.Refuse(verdict.NotGranted, p.name, "%s may not %s what goes from %.200q to %.200q in channel %.64q", orNobody(p.name), string(a.Verb), a.From, a.To, a.Channel)
}

// MayAsk reports by an error that no decision at all may be asked for.
func (b Book) MayAsk(p Principal) error {
	if p.name != "" && slices.ContainsFunc(b.grants[p.name], func(g Grant) bool {
		return slices.ContainsFunc(g.Verbs, func(v Verb) bool { return v != Audit })
	}) {
		return nil
	}
	return verdict.Refuse(verdict.NotGranted, p.name, "%s may not ask for any decision", orNobody(p.name))
}

// Audits reports by an error that nothing may be read of what was decided. What
// of it may be is a question for [Book.May] of each decision.
func (b Book) Audits(p Principal) error {
	if p.name != "" && slices.ContainsFunc(b.grants[p.name], func(g Grant) bool { return slices.Contains(g.Verbs, Audit) }) {
		return nil
	}
	return verdict.Refuse(verdict.NotGranted, p.name, "%s may not read what was decided", orNobody(p.name))
}

func isRepository(name string) bool {
	return resourcePattern.MatchString(name) && strings.Contains(name, "/") && !strings.HasSuffix(name, "/")
}

func orNobody(name string) string {
	if name == "" {
		return "nobody"
	}
	return name
}

// covers reports whether a repository is one of a list, or below one.
func covers(list []string, repository string) bool {
	return slices.ContainsFunc(list, func(r string) bool {
		return r == repository || strings.HasSuffix(r, "/") && strings.HasPrefix(repository, r)
	})
}
