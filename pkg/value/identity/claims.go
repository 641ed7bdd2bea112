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

// All lists the claims that are not empty, by name, in the order of the fields.
func (c Claims) All() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for _, claim := range [][2]string{
			{"buildSignerURI", c.BuildSignerURI}, {"buildSignerDigest", c.BuildSignerDigest},
			{"runnerEnvironment", c.RunnerEnvironment},
			{"sourceRepositoryURI", c.SourceRepository}, {"sourceRepositoryIdentifier", c.SourceRepositoryID},
			{"sourceRepositoryOwnerURI", c.SourceOwner}, {"sourceRepositoryOwnerIdentifier", c.SourceOwnerID},
			{"sourceRepositoryRef", c.SourceRef}, {"sourceRepositoryDigest", c.SourceDigest},
			{"buildConfigURI", c.BuildConfigURI}, {"buildConfigDigest", c.BuildConfigDigest},
			{"buildTrigger", c.BuildTrigger}, {"runInvocationURI", c.RunInvocation},
			{"sourceRepositoryVisibilityAtSigning", c.SourceRepositoryScope},
		} {
			if claim[1] != "" && !yield(claim[0], claim[1]) {
				return
			}
		}
	}
}

// ClaimNames lists the names that [Claims.All] gives.
func ClaimNames() []string {
	all := Claims{
		BuildSignerURI: "x", BuildSignerDigest: "x", RunnerEnvironment: "x", SourceRepository: "x", SourceRepositoryID: "x",
		SourceOwner: "x", SourceOwnerID: "x", SourceRef: "x", SourceDigest: "x", BuildConfigURI: "x", BuildConfigDigest: "x",
		BuildTrigger: "x", RunInvocation: "x", SourceRepositoryScope: "x",
	}
	var names []string
	for name := range all.All() {
		names = append(names, name)
	}
	return names
}

// ClaimsOf makes Claims from names and values; names that [ClaimNames] does not
// list are dropped.
func ClaimsOf(said map[string]string) Claims {
	return Claims{
		BuildSignerURI: said["buildSignerURI"], BuildSignerDigest: said["buildSignerDigest"], RunnerEnvironment: said["runnerEnvironment"],
		SourceRepository: said["sourceRepositoryURI"], SourceRepositoryID: said["sourceRepositoryIdentifier"],
		SourceOwner: said["sourceRepositoryOwnerURI"], SourceOwnerID: said["sourceRepositoryOwnerIdentifier"],
		SourceRef: said["sourceRepositoryRef"], SourceDigest: said["sourceRepositoryDigest"],
		BuildConfigURI: said["buildConfigURI"], BuildConfigDigest: said["buildConfigDigest"], BuildTrigger: said["buildTrigger"],
		RunInvocation: said["runInvocationURI"], SourceRepositoryScope: said["sourceRepositoryVisibilityAtSigning"],
	}
}
