package identity

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Difference is how an identity differs from the expected one.
type Difference int

// The differences. The zero value is the widest.
const (
	Stranger    Difference = iota // another name
	OtherIssuer                   // the expected name, vouched for by another issuer
	OtherType                     // the expected text, as a name of another kind
	noType                        // the expected identity
)

// Compare says how i differs from the expected identity.
func (m Matcher) Compare(i Identity) Difference {
	issuer := m.exact.Issuer
	if m.pattern != nil {
		issuer = m.issuer
	}
	elsewhere, otherwise := i, i
	elsewhere.Issuer = issuer
	if otherwise.Type = Email; i.Type == Email {
		otherwise.Type = URI
	}
	switch {
	case m.Match(i):
		return noType
	case m.Match(otherwise):
		return OtherType
	case m.Match(elsewhere):
		return OtherIssuer
	}
	return Stranger
}

// Demand is what a certificate must claim about the run that it was issued to, by
// the names of [Claims.All]. The zero Demand requires nothing.
type Demand map[string]string

// ParseDemand reads demands of the form NAME=VALUE. Values are exact.
func ParseDemand(list []string) (Demand, error) {
	known := map[string]bool{}
	for _, name := range ClaimNames() {
		known[name] = true
	}
	d := Demand{}
	for _, text := range list {
		name, value, _ := strings.Cut(text, "=")
		switch {
		case !known[name]:
			return nil, fmt.Errorf("unknown claim %q; known: %s", name, strings.Join(ClaimNames(), ", "))
		case value == "":
			return nil, fmt.Errorf("%q: want NAME=VALUE", text)
		case d[name] != "":
			return nil, fmt.Errorf("claim %q is required twice", name)
		}
		d[name] = value
	}
	return d, nil
}

// Unmet is the name of the first claim, in the order of names, that differs from
// the demand; ok is false if all agree.
func (d Demand) Unmet(c Claims) (name string, ok bool) {
	said := maps.Collect(c.All())
	for _, name := range slices.Sorted(maps.Keys(d)) {
		if said[name] != d[name] {
			return name, true
		}
	}
	return "", false
}
