package identity

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Difference is how an identity differs from the one that is meant.
type Difference int

// The differences. The zero value is the widest.
const (
	Stranger    Difference = iota // another name
	OtherIssuer                   // the name that is meant, vouched for by somebody else
	OtherType                     // the text that is meant, as a name of another kind
	None                          // the identity that is meant
)

// Compare says how i differs from the identity that is meant.
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
		return None
	case m.Match(otherwise):
		return OtherType
	case m.Match(elsewhere):
		return OtherIssuer
	}
	return Stranger
}

// Demand is what a certificate must claim of the run that it was issued to, by
// the names that [Claims.All] gives. The zero Demand asks nothing.
type Demand map[string]string

// ParseDemand reads demands of the form NAME=VALUE. Values are exact.
func ParseDemand(list []string) (Demand, error) {
	known := map[string]bool{}
	for _, name := range claimNames() {
		known[name] = true
	}
	d := Demand{}
	for _, text := range list {
		name, value, _ := strings.Cut(text, "=")
		switch {
		case !known[name]:
			return nil, fmt.Errorf("no certificate claims %q; known: %s", name, strings.Join(claimNames(), ", "))
		case value == "":
			return nil, fmt.Errorf("%q: want NAME=VALUE", text)
		case d[name] != "":
			return nil, fmt.Errorf("%q is asked twice", name)
		}
		d[name] = value
	}
	return d, nil
}

// Unmet is the name of the first claim that does not say what is asked, in the
// order of names; ok is false where there is none.
func (d Demand) Unmet(c Claims) (name string, ok bool) {
	said := maps.Collect(c.All())
	for _, name := range slices.Sorted(maps.Keys(d)) {
		if said[name] != d[name] {
			return name, true
		}
	}
	return "", false
}

func claimNames() []string {
	return []string{
		"buildSignerURI", "buildSignerDigest", "runnerEnvironment", "sourceRepositoryURI", "sourceRepositoryIdentifier",
		"sourceRepositoryOwnerURI", "sourceRepositoryOwnerIdentifier", "sourceRepositoryRef", "sourceRepositoryDigest",
		"buildConfigURI", "buildConfigDigest", "buildTrigger", "runInvocationURI", "sourceRepositoryVisibilityAtSigning",
	}
}
