package provenance

import (
	"cmp"

	slsa02 "github.com/in-toto/in-toto-golang/in_toto/slsa_provenance/v0.2"

	"github.com/waybill-release/waybill/pkg/document/intoto"
)

// predicateV02 is SLSA provenance v0.2, https://slsa.dev/provenance/v0.2. The
// library writes invocationID where the specification has invocationId.
// Reproducibility is not claimed; others can test it.
type predicateV02 struct {
	slsa02.ProvenancePredicate
	Metadata struct {
		slsa02.ProvenanceMetadata
		InvocationID string `json:"buildInvocationId"`
	} `json:"metadata"`
}

// EncodeV02 makes the same statement for readers that know no newer version:
// provenance v0.2 in an in-toto statement v0.1. It has the same content, and
// claims complete materials only if the step was hermetic.
func EncodeV02(subjects []intoto.Subject, p Predicate) (intoto.Statement, error) {
	d, run := p.BuildDefinition, p.RunDetails
	var out predicateV02
	out.Builder.ID = run.Builder.ID
	out.BuildType, out.BuildConfig = d.BuildType, d.InternalParameters
	out.Invocation.Parameters = d.ExternalParameters
	out.Invocation.Environment = map[string]string{"isolation": d.InternalParameters.Isolation}
	out.Metadata.InvocationID = run.Metadata.InvocationID
	out.Metadata.BuildStartedOn, out.Metadata.BuildFinishedOn = &run.Metadata.StartedOn, &run.Metadata.FinishedOn
	out.Metadata.Completeness = slsa02.ProvenanceComplete{Parameters: true, Materials: d.InternalParameters.Hermetic}
	for _, r := range d.ResolvedDependencies {
		m := slsa02.ProvenanceMaterial{URI: r.URI, Digest: r.Digest}
		m.URI = cmp.Or(m.URI, r.Name)
		if commit := r.Digest["gitCommit"]; commit != "" {
			m.Digest = slsa02.DigestSet{"sha1": commit}
			if len(commit) == 64 {
				m.Digest = slsa02.DigestSet{"sha256": commit}
			}
		}
		if r.Name == sourceName {
			out.Invocation.ConfigSource = slsa02.ConfigSource{URI: m.URI, Digest: m.Digest, EntryPoint: d.ExternalParameters.Config.Path}
		}
		out.Materials = append(out.Materials, m)
	}
	return intoto.NewV01(PredicateTypeV02, subjects, out)
}
