package identity

import "iter"

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
func ClaimNames() (names []string) {
	for _, f := range new(Claims).fields() {
		names = append(names, f.name)
	}
	return names
}

// ClaimsOf makes Claims from names and values; names that [ClaimNames] does not
// list are dropped.
func ClaimsOf(said map[string]string) (c Claims) {
	for _, f := range c.fields() {
		*f.value = said[f.name]
	}
	return c
}
