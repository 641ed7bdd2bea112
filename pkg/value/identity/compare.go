package identity

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/slice"
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
	known := slice.Set(ClaimNames(), func(name string) string { return name })
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

// Claims are what a certificate states about the run that it was issued to, besides
// the identity. The certificate authority wrote them from the identity token;
// the fields are those that the platform sets, not the tenant.
type Claims struct {
	BuildSignerURI        string `json:"buildSignerURI,omitempty"`
	BuildSignerDigest     string `json:"buildSignerDigest,omitempty"`
	RunnerEnvironment     string `json:"runnerEnvironment,omitempty"`
	SourceRepository      string `json:"sourceRepositoryURI,omitempty"`
	SourceRepositoryID    string `json:"sourceRepositoryIdentifier,omitempty"`
	SourceOwner           string `json:"sourceRepositoryOwnerURI,omitempty"`
	SourceOwnerID         string `json:"sourceRepositoryOwnerIdentifier,omitempty"`
	SourceRef             string `json:"sourceRepositoryRef,omitempty"`
	SourceDigest          string `json:"sourceRepositoryDigest,omitempty"`
	BuildConfigURI        string `json:"buildConfigURI,omitempty"`
	BuildConfigDigest     string `json:"buildConfigDigest,omitempty"`
	BuildTrigger          string `json:"buildTrigger,omitempty"`
	RunInvocation         string `json:"runInvocationURI,omitempty"`
	SourceRepositoryScope string `json:"sourceRepositoryVisibilityAtSigning,omitempty"`
}

// claim is one field of Claims and its name.
type claim struct {
	name  string
	value *string
}

// fields are all claims, in the order of the fields.
func (c *Claims) fields() []claim {
	return []claim{
		{"buildSignerURI", &c.BuildSignerURI}, {"buildSignerDigest", &c.BuildSignerDigest},
		{"runnerEnvironment", &c.RunnerEnvironment},
		{"sourceRepositoryURI", &c.SourceRepository}, {"sourceRepositoryIdentifier", &c.SourceRepositoryID},
		{"sourceRepositoryOwnerURI", &c.SourceOwner}, {"sourceRepositoryOwnerIdentifier", &c.SourceOwnerID},
		{"sourceRepositoryRef", &c.SourceRef}, {"sourceRepositoryDigest", &c.SourceDigest},
		{"buildConfigURI", &c.BuildConfigURI}, {"buildConfigDigest", &c.BuildConfigDigest},
		{"buildTrigger", &c.BuildTrigger}, {"runInvocationURI", &c.RunInvocation},
		{"sourceRepositoryVisibilityAtSigning", &c.SourceRepositoryScope},
	}
}

// All lists the claims that are not empty, by name, in the order of the fields.
func (c Claims) All() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for _, f := range c.fields() {
			if *f.value != "" && !yield(f.name, *f.value) {
				return
			}
		}
	}
}

// ClaimNames lists the names that [Claims.All] gives.
func ClaimNames() []string {
	return slice.Map(new(Claims).fields(), func(f claim) string { return f.name })
}

// ClaimsOf makes Claims from names and values; names that [ClaimNames] does not
// list are dropped.
func ClaimsOf(said map[string]string) (c Claims) {
	for _, f := range c.fields() {
		*f.value = said[f.name]
	}
	return c
}
