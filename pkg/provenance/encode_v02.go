package provenance

import (
	"time"

	"github.com/waybill-release/waybill/pkg/intoto"
)

// predicateV02 is SLSA provenance v0.2, https://slsa.dev/provenance/v0.2.
type predicateV02 struct {
	Builder struct {
		ID string `json:"id"`
	} `json:"builder"`
	BuildType   string             `json:"buildType"`
	Invocation  invocationV02      `json:"invocation"`
	BuildConfig InternalParameters `json:"buildConfig"`
	Metadata    metadataV02        `json:"metadata"`
	Materials   []materialV02      `json:"materials"`
}

type invocationV02 struct {
	ConfigSource materialConfig     `json:"configSource"`
	Parameters   ExternalParameters `json:"parameters"`
	Environment  map[string]string  `json:"environment"`
}

type materialConfig struct {
	URI        string            `json:"uri"`
	Digest     map[string]string `json:"digest"`
	EntryPoint string            `json:"entryPoint"`
}

type metadataV02 struct {
	BuildInvocationID string          `json:"buildInvocationId"`
	BuildStartedOn    time.Time       `json:"buildStartedOn"`
	BuildFinishedOn   time.Time       `json:"buildFinishedOn"`
	Completeness      completenessV02 `json:"completeness"`
	// Whether a build can be reproduced is for others to find out.
	Reproducible bool `json:"reproducible"`
}

type completenessV02 struct {
	Parameters  bool `json:"parameters"`
	Environment bool `json:"environment"`
	Materials   bool `json:"materials"`
}

type materialV02 struct {
	URI    string            `json:"uri"`
	Digest map[string]string `json:"digest"`
}

// EncodeV02 makes the same statement for readers that know no newer version:
// provenance v0.2 in an in-toto statement v0.1. It says the same, and calls
// its materials complete only where the step was hermetic.
func EncodeV02(subjects []intoto.Subject, p Predicate) (intoto.Statement, error) {
	d, run := p.BuildDefinition, p.RunDetails
	out := predicateV02{BuildType: d.BuildType, BuildConfig: d.InternalParameters}
	out.Builder.ID = run.Builder.ID
	out.Invocation.Parameters = d.ExternalParameters
	out.Invocation.Environment = map[string]string{"isolation": d.InternalParameters.Isolation}
	out.Metadata = metadataV02{
		BuildInvocationID: run.Metadata.InvocationID, BuildStartedOn: run.Metadata.StartedOn, BuildFinishedOn: run.Metadata.FinishedOn,
		Completeness: completenessV02{Parameters: true, Materials: d.InternalParameters.Hermetic},
	}
	for _, r := range d.ResolvedDependencies {
		m := materialV02{URI: r.URI, Digest: r.Digest}
		if m.URI == "" {
			m.URI = r.Name
		}
		if commit := r.Digest["gitCommit"]; commit != "" {
			m.Digest = map[string]string{"sha1": commit}
			if len(commit) == 64 {
				m.Digest = map[string]string{"sha256": commit}
			}
		}
		if r.Name == sourceName {
			out.Invocation.ConfigSource = materialConfig{URI: m.URI, Digest: m.Digest, EntryPoint: d.ExternalParameters.Config.Path}
		}
		out.Materials = append(out.Materials, m)
	}
	return intoto.NewV01(PredicateTypeV02, subjects, out)
}
