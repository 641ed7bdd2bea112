package policy

import "time"

// Compiler makes rules out of their text. Policies with rules of their own
// load only where there is one: pkg/judge/policy/cel is, and the small verifier has
// none, so there such a policy is refused and never read without its rules.
type Compiler interface {
	// Compile refuses what does not type-check, cannot be bounded or does not
	// answer yes or no.
	Compile(expression string) (Expression, error)
}

// Expression is a compiled rule. It must not change and may be asked by
// several goroutines at once.
type Expression interface {
	// Holds answers for one artifact. An error is a no.
	Holds(View) (bool, error)
}

// View is everything that a rule can see: one artifact, and what was verified
// about it. There is no other input, no clock and no network.
type View struct {
	Stage    string
	Version  string
	Time     time.Time // of judgement
	Artifact ArtifactView
	Evidence []EvidenceView
}

// ArtifactView is the artifact that is judged.
type ArtifactView struct {
	Name   string
	Class  string
	SHA256 string // hexadecimal
	Commit string // that the manifest names
}

// EvidenceView is one piece of verified evidence that is bound to the
// artifact.
type EvidenceView struct {
	Kind    string // predicate type, or "blob"
	Role    string // in which the signer may act here; empty where in none
	Issuer  string
	Subject string
	Signed  time.Time
	// Claims are the certificate's, by the names of [identity.ClaimNames].
	Claims map[string]string
	// Provenance is the zero value unless Role is builder.
	Provenance ProvenanceView
}

// ProvenanceView is what provenance says; the zero value where the evidence is
// none.
type ProvenanceView struct {
	Builder    string
	BuildType  string
	Repository string
	Ref        string
	Commit     string
	Invocation string
	// Level is the level of the Build track that it shows, 0 to 3.
	Level int
	// Parameters are the external parameters, by dotted path.
	Parameters   map[string]string
	Dependencies []DependencyView
}

// DependencyView is one resolved dependency.
type DependencyView struct {
	Name   string
	URI    string
	SHA256 string
}
