package policy

import "time"

// Compiler compiles custom rules. Policies with rules load only with a
// compiler: pkg/judge/policy/cel has one, and the small verifier has none, so
// it refuses such a policy and never reads it without its rules.
type Compiler interface {
	// Compile refuses a rule that does not type-check, whose cost is not
	// bounded, or whose result is not a boolean.
	Compile(expression string) (Expression, error)
}

// Expression is a compiled rule. It must be immutable and safe for concurrent
// use.
type Expression interface {
	// Holds evaluates the rule for one artifact. An error refuses the artifact.
	Holds(View) (bool, error)
}

// View is everything that a rule can see: one artifact, and the verified
// evidence about it. There is no other input, no clock and no network.
type View struct {
	Stage    string
	Version  string
	Time     time.Time // time of verification
	Artifact ArtifactView
	Evidence []EvidenceView
}

// ArtifactView is the artifact in question.
type ArtifactView struct {
	Name   string
	Class  string
	SHA256 string // hexadecimal
	Commit string // the commit that the manifest names
}

// EvidenceView is one piece of verified evidence that is bound to the artifact.
type EvidenceView struct {
	Kind    string // predicate type, or "blob"
	Role    string // role in which the signer may act here; empty if none
	Issuer  string
	Subject string
	Signed  time.Time
	// Claims are those of the certificate, by the names of
	// [identity.ClaimNames].
	Claims map[string]string
	// Provenance is the zero value unless Role is builder.
	Provenance ProvenanceView
}

// ProvenanceView is the content of provenance; zero if the evidence is not
// provenance.
type ProvenanceView struct {
	Builder    string
	BuildType  string
	Repository string
	Ref        string
	Commit     string
	Invocation string
	// Level is the SLSA Build level that it shows, 0 to 4.
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
