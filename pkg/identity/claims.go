package identity

// Claims are what a certificate says of the run that it was issued to, beside
// its identity. The certificate authority wrote them from the identity token;
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
