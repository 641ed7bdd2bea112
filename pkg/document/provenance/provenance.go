// Package provenance reads SLSA provenance, and writes Waybill's own.
//
// There are two readers. [Parse] reads the provenance of Waybill's own build
// type into a [Predicate] and knows every field of it. [Read] reads the
// provenance of any author, of SLSA v0.1, v0.2 or v1, into one form, a [Claim];
// [Lint] lists the contradictions in a claim.
//
//	claim, err := provenance.Read(statement)
//	for _, note := range provenance.Lint(claim) { … }
//
// Both are parsed, not verified: pkg/judge/verify, pkg/judge/slsa and
// pkg/judge/policy decide who signed it, and whether that signer may sign for
// the builder that it names.
//
// Specification: SLSA Provenance v0.1, v0.2 and v1,
// https://slsa.dev/provenance/v1.
package provenance

import (
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// PredicateType is the type of SLSA provenance v1.
const PredicateType = "https://slsa.dev/provenance/v1"

// The build type and builders of Waybill's own control plane. Each URI resolves
// to a page under attestations/.
const (
	BuildType         = "https://github.com/waybill-release/waybill/attestations/build-step/v1"
	BuilderIsolated   = "https://github.com/waybill-release/waybill/attestations/builder/v1#isolated"
	BuilderUnisolated = "https://github.com/waybill-release/waybill/attestations/builder/v1#unisolated"
)

// Predicate is the provenance of one build step.
type Predicate struct {
	BuildDefinition BuildDefinition `json:"buildDefinition"`
	RunDetails      RunDetails      `json:"runDetails"`
}

// BuildDefinition says what was built and from what.
type BuildDefinition struct {
	BuildType            string             `json:"buildType"`
	ExternalParameters   ExternalParameters `json:"externalParameters"`
	InternalParameters   InternalParameters `json:"internalParameters"`
	ResolvedDependencies []Resource         `json:"resolvedDependencies"`
}

// ExternalParameters are what a caller could choose. The set is closed: an
// unknown parameter does not parse.
type ExternalParameters struct {
	Config  Config            `json:"config"`
	Version string            `json:"version"`
	Step    string            `json:"step"`
	Each    map[string]string `json:"each,omitempty"`
	// Parameters are all parameters that release.yaml declares, each with its
	// actual value: chosen or default.
	Parameters map[string]string `json:"parameters,omitempty"`
}

// Config names the configuration file of the build.
type Config struct {
	Repository string `json:"repository"`
	Ref        string `json:"ref"`
	Path       string `json:"path"`
	SHA256     string `json:"sha256"`
}

// InternalParameters are what the control plane chose.
type InternalParameters struct {
	Isolation string   `json:"isolation"`
	Command   []string `json:"command,omitempty"`
	Env       []string `json:"env,omitempty"`
	// Walls describes the isolation of a command; nil where no code of the
	// source ran.
	Walls *Walls `json:"walls,omitempty"`
	// Hermetic says that the step had no network, and that all its possible
	// inputs were fixed by digest before it began and are listed as
	// dependencies.
	Hermetic bool `json:"hermetic"`
	// Tag says who signed the tag that the ref names; nil if it names no tag.
	Tag *SignedTag `json:"tag,omitempty"`
}

// Walls is the isolation of a command, as the control plane observed it.
type Walls struct {
	Had     []string `json:"had,omitempty"`
	Lacking []string `json:"lacking,omitempty"`
	// Network lists the hosts that the command could reach, none by default;
	// Refused the first hosts that it tried in vain, and RefusedMore counts its
	// attempts to reach others.
	Network     []string `json:"network,omitempty"`
	Refused     []string `json:"refused,omitempty"`
	RefusedMore int      `json:"refusedMore,omitempty"`
	// Machine says that the programs of the machine were available, which no
	// digest covers.
	Machine bool `json:"machine"`
	// Kernel and Processors are what a command can ask of the machine behind
	// all walls: the kernel's release and the number of processors.
	Kernel     string `json:"kernel,omitempty"`
	Processors int    `json:"processors,omitempty"`
}

// SignedTag is what the control plane found out about a tag's signer. Exactly
// one of Signer and NotVerified is set.
type SignedTag struct {
	Signature   string `json:"signature"` // none, ssh, openpgp or x509
	Signer      string `json:"signer,omitempty"`
	NotVerified string `json:"notVerified,omitempty"` // why no signer is named
}

// Resource is one input of the build.
type Resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

// RunDetails says who ran the build, and when.
type RunDetails struct {
	Builder    BuilderID  `json:"builder"`
	Metadata   Metadata   `json:"metadata"`
	Byproducts []Resource `json:"byproducts,omitempty"`
}

// BuilderID is the URI of the builder, with its version.
type BuilderID struct {
	ID      string            `json:"id"`
	Version map[string]string `json:"version,omitempty"`
}

// Metadata identifies the run. All steps of one release share an invocation.
type Metadata struct {
	InvocationID string    `json:"invocationId"`
	StartedOn    time.Time `json:"startedOn"`
	FinishedOn   time.Time `json:"finishedOn"`
}

// Provenance is one step's provenance with its subjects.
type Provenance struct {
	Predicate
	Subjects []intoto.Subject
}

// Parse parses Waybill's own provenance in a statement. A statement from the
// open reader is first checked with the strict one.
func Parse(s intoto.Statement) (Provenance, error) {
	if s.PredicateType() != PredicateType {
		return Provenance{}, verdict.Refuse(verdict.PredicateType, "provenance", "says %q, not provenance", s.PredicateType())
	}
	s, err := s.Strict()
	if err != nil {
		return Provenance{}, err
	}
	var kind struct {
		BuildDefinition struct {
			BuildType string `json:"buildType"`
		} `json:"buildDefinition"`
	}
	if err := strictjson.UnmarshalOpen(s.Predicate(), &kind); err != nil {
		return Provenance{}, verdict.Wrap(verdict.StatementParse, "provenance", err)
	}
	if kind.BuildDefinition.BuildType != BuildType {
		return Provenance{}, verdict.Refuse(verdict.BuildType, "provenance", "unexpected build type %q, want %q", kind.BuildDefinition.BuildType, BuildType)
	}
	p := Provenance{Subjects: s.Subjects()}
	if err := strictjson.Unmarshal(s.Predicate(), &p.Predicate); err != nil {
		return Provenance{}, verdict.Wrap(verdict.StatementParse, "provenance", err)
	}
	return p, nil
}

// SourceCommit is the commit that was built, according to the provenance; "" if
// it names none.
func (p Provenance) SourceCommit() string {
	for _, r := range p.BuildDefinition.ResolvedDependencies {
		if c := r.Digest["gitCommit"]; c != "" && r.Name == sourceName {
			return c
		}
	}
	return ""
}

// Used returns the digests of a dependency with this name; the zero Set if
// there is none.
func (p Provenance) Used(name string) digest.Set {
	for _, r := range p.BuildDefinition.ResolvedDependencies {
		if r.Name != name {
			continue
		}
		if set, err := digest.ParseMap(r.Digest); err == nil {
			return set
		}
	}
	return digest.Set{}
}

// sourceName is the name of the dependency that is the commit that was built. A
// release commit that was not built has another name.
const sourceName = "source"

// Commit makes the resource of the source: the commit that was built, and its
// tree.
func Commit(repository, ref, commit, tree string) Resource {
	return git(sourceName, repository, ref, map[string]string{"gitCommit": commit, "gitTree": tree})
}

// ReleaseCommit makes the resource of the empty commit that the ref names, if
// its parent is the commit that was built.
func ReleaseCommit(repository, ref, commit, tree string) Resource {
	return git("release commit", repository, ref, map[string]string{"gitCommit": commit, "gitTree": tree})
}

// Tag makes the resource of the annotated tag that the ref names.
func Tag(repository, ref, tag string) Resource {
	return git("tag", repository, ref, map[string]string{"gitTag": tag})
}

func git(name, repository, ref string, ids map[string]string) Resource {
	return Resource{Name: name, URI: "git+" + strings.TrimPrefix(repository, "git+") + "@" + ref, Digest: ids}
}

// File makes the resource of a file.
func File(name string, d digest.Set) Resource {
	return Resource{Name: name, Digest: d.Map()}
}

// Encode makes the statement of a step's provenance.
func Encode(subjects []intoto.Subject, p Predicate) (intoto.Statement, error) {
	return intoto.New(PredicateType, subjects, p)
}
