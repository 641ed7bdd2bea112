package provenance

import (
	"cmp"
	"encoding/json"
	"strconv"
	"time"

	"github.com/in-toto/in-toto-golang/in_toto/slsa_provenance/common"
	slsa01 "github.com/in-toto/in-toto-golang/in_toto/slsa_provenance/v0.1"
	slsa02 "github.com/in-toto/in-toto-golang/in_toto/slsa_provenance/v0.2"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Metadata of v0.1 and v0.2. Writers spell the invocation id with "ID" or "Id";
// a document with both is refused.
type wireMetadata struct {
	InvocationID string `json:"buildInvocationId"`
	InvocationUC string `json:"buildInvocationID"`
	Started      string `json:"buildStartedOn"`
	Finished     string `json:"buildFinishedOn"`
	Completeness struct {
		Arguments   *bool `json:"arguments"`  // v0.1
		Parameters  *bool `json:"parameters"` // v0.2
		Environment *bool `json:"environment"`
		Materials   *bool `json:"materials"`
	} `json:"completeness"`
	Reproducible *bool `json:"reproducible"`
}

type wireBuilder struct {
	ID           string            `json:"id"`
	Version      map[string]string `json:"version"`
	Dependencies json.RawMessage   `json:"builderDependencies"`
}

// The library's types, except where they lose information: values whose
// spelling matters, and whether a field was present.
type wireV01 struct {
	Builder common.ProvenanceBuilder `json:"builder"`
	Recipe  struct {
		slsa01.ProvenanceRecipe
		DefinedIn   json.Number     `json:"definedInMaterial"` // a number, or as Google Cloud Build writes it: "-1"
		Arguments   json.RawMessage `json:"arguments"`
		Environment json.RawMessage `json:"environment"`
	} `json:"recipe"`
	Metadata  wireMetadata    `json:"metadata"`
	Materials json.RawMessage `json:"materials"`
}

type wireV02 struct {
	slsa02.ProvenancePredicate
	Invocation struct {
		slsa02.ProvenanceInvocation
		Parameters  json.RawMessage `json:"parameters"`
		Environment json.RawMessage `json:"environment"`
	} `json:"invocation"`
	BuildConfig json.RawMessage `json:"buildConfig"`
	Metadata    wireMetadata    `json:"metadata"`
	Materials   json.RawMessage `json:"materials"`
}

type wireV1 struct {
	BuildDefinition struct {
		BuildType    string          `json:"buildType"`
		External     json.RawMessage `json:"externalParameters"`
		Internal     json.RawMessage `json:"internalParameters"`
		Dependencies json.RawMessage `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder  wireBuilder `json:"builder"`
		Metadata struct {
			InvocationID string `json:"invocationId"`
			InvocationUC string `json:"invocationID"`
			Started      string `json:"startedOn"`
			Finished     string `json:"finishedOn"`
		} `json:"metadata"`
		Byproducts json.RawMessage `json:"byproducts"`
	} `json:"runDetails"`
}

func readV01(raw json.RawMessage) (c Claim, err error) {
	var w wireV01
	if err := decode(raw, &w); err != nil {
		return Claim{}, err
	}
	c = Claim{BuildType: w.Recipe.Type, EntryPoint: w.Recipe.EntryPoint, DefinedIn: -1}
	if at := w.Recipe.DefinedIn; at != "" {
		if c.DefinedIn, err = strconv.Atoi(at.String()); err != nil {
			return Claim{}, verdict.Wrap(verdict.StatementParse, "provenance", err)
		}
	}
	var p pieces
	c.Builder = Builder{ID: w.Builder.ID}
	c.Parameters = p.parameters("", w.Recipe.Arguments)
	c.Internal = p.parameters("environment", w.Recipe.Environment)
	c.Dependencies = p.resources(w.Materials)
	p.metadata(&c, w.Metadata)
	return p.done(c)
}

func readV02(raw json.RawMessage) (c Claim, err error) {
	var w wireV02
	if err := decode(raw, &w); err != nil {
		return Claim{}, err
	}
	config := w.Invocation.ConfigSource
	c = Claim{BuildType: w.BuildType, EntryPoint: config.EntryPoint, DefinedIn: -1}
	c.Source = sourceOf(intoto.Resource{URI: config.URI, Digest: config.Digest})
	var p pieces
	c.Builder = Builder{ID: w.Builder.ID}
	c.Parameters = p.parameters("", w.Invocation.Parameters)
	c.Internal = append(p.parameters("buildConfig", w.BuildConfig), p.parameters("environment", w.Invocation.Environment)...)
	c.Dependencies = p.resources(w.Materials)
	p.metadata(&c, w.Metadata)
	return p.done(c)
}

func readV1(raw json.RawMessage) (c Claim, err error) {
	var w wireV1
	if err := decode(raw, &w); err != nil {
		return Claim{}, err
	}
	c = Claim{BuildType: w.BuildDefinition.BuildType, DefinedIn: -1}
	meta := w.RunDetails.Metadata
	var p pieces
	by := w.RunDetails.Builder
	c.Builder = Builder{ID: by.ID, Version: by.Version, Dependencies: p.resources(by.Dependencies)}
	c.Parameters = p.parameters("", w.BuildDefinition.External)
	c.Internal = p.parameters("", w.BuildDefinition.Internal)
	c.Dependencies = p.resources(w.BuildDefinition.Dependencies)
	c.Byproducts = p.resources(w.RunDetails.Byproducts)
	c.Run = Run{InvocationID: p.either(meta.InvocationID, meta.InvocationUC), Started: p.time(meta.Started), Finished: p.time(meta.Finished)}
	return p.done(c)
}

// pieces parses the parts of a predicate and keeps the first error.
type pieces struct{ err error }

func (p *pieces) done(c Claim) (Claim, error) {
	if p.err != nil {
		return Claim{}, p.err
	}
	return c, nil
}

func (p *pieces) fail(err error) { p.err = cmp.Or(p.err, err) }

func (p *pieces) parameters(name string, raw json.RawMessage) []Parameter {
	list, err := flatten(name, raw)
	p.fail(err)
	return list
}

func (p *pieces) resources(raw json.RawMessage) []intoto.Resource {
	list, err := intoto.ParseResources(raw, maxDependencies)
	p.fail(err)
	return list
}

func (p *pieces) metadata(c *Claim, w wireMetadata) {
	c.Run = Run{InvocationID: p.either(w.InvocationID, w.InvocationUC), Started: p.time(w.Started), Finished: p.time(w.Finished)}
	c.Completeness = Completeness{
		Parameters: said(w.Completeness.Parameters), Environment: said(w.Completeness.Environment), Materials: said(w.Completeness.Materials),
	}
	if w.Completeness.Arguments != nil {
		c.Completeness.Parameters = said(w.Completeness.Arguments)
	}
	c.Reproducible = said(w.Reproducible)
}

func (p *pieces) either(a, b string) string {
	if a != "" && b != "" {
		p.fail(verdict.Refuse(verdict.StatementParse, "provenance", "two spellings of the invocation id"))
	}
	return a + b
}

func (p *pieces) time(text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		p.fail(verdict.Refuse(verdict.StatementParse, "provenance", "time %q is not in RFC 3339 format", short(text)))
		return time.Time{}
	}
	return at.UTC()
}

func said(b *bool) Said {
	switch {
	case b == nil:
		return NotSaid
	case *b:
		return SaidYes
	}
	return SaidNo
}

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
