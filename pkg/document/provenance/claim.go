package provenance

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	slsa01 "github.com/in-toto/in-toto-golang/in_toto/slsa_provenance/v0.1"
	slsa02 "github.com/in-toto/in-toto-golang/in_toto/slsa_provenance/v0.2"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The older predicate types, which are read but never written.
const (
	PredicateTypeV01 = slsa01.PredicateSLSAProvenance
	PredicateTypeV02 = slsa02.PredicateSLSAProvenance
)

// The limits of a claim.
const (
	maxPredicate    = 16 << 20
	maxValues       = 400_000 // in the whole predicate, at any depth
	maxParameters   = 20_000
	maxDependencies = 50_000
)

// Said is the answer of a claim to a yes-or-no question. A claim may give none.
type Said uint8

// The three answers.
const (
	NotSaid Said = iota
	SaidNo
	SaidYes
)

// Parameter is one input of a build. Nested objects are flattened: their keys
// are joined by dots, and a key that contains a dot or a quote is quoted.
type Parameter struct {
	Name  string
	Value json.RawMessage
}

// Source is where, according to the claim, the build found its instructions.
type Source struct {
	Repository string // without ref, such as git+https://example.test/repo
	Ref        string
	Commit     string
}

// Completeness is what a builder says about the completeness of its claim.
type Completeness struct {
	Parameters  Said
	Environment Said
	Materials   Said
}

// Builder is the builder that the claim names.
type Builder struct {
	ID           string
	Version      map[string]string
	Dependencies []intoto.Resource
}

// Run is one run of the builder.
type Run struct {
	InvocationID string
	Started      time.Time // zero if not given
	Finished     time.Time
}

// Claim is the content of SLSA provenance by any author, in any version of the
// format: v0.1, v0.2 or v1. It is parsed, not verified: nothing in it is known
// to be true.
type Claim struct {
	PredicateType string
	Builder       Builder
	BuildType     string
	Source        Source
	EntryPoint    string
	// Parameters are what the caller of the build could choose:
	// externalParameters, invocation.parameters or recipe.arguments.
	Parameters []Parameter
	// Internal is what the platform chose: internalParameters, or environment
	// and buildConfig.
	Internal     []Parameter
	Dependencies []intoto.Resource
	// DefinedIn is the index of the dependency that contains the instructions,
	// in v0.1; -1 if not given.
	DefinedIn    int
	Byproducts   []intoto.Resource
	Run          Run
	Completeness Completeness
	Reproducible Said

	statement intoto.Statement
}

// Read parses the provenance in a statement, in any version of the format.
func Read(s intoto.Statement) (Claim, error) {
	readers := map[string]func(json.RawMessage) (Claim, error){
		PredicateTypeV01: readV01, PredicateTypeV02: readV02, PredicateType: readV1,
	}
	read, known := readers[s.PredicateType()]
	if !known {
		return Claim{}, verdict.Refuse(verdict.PredicateType, "provenance", "says %q, not provenance", short(s.PredicateType()))
	}
	predicate := s.Predicate()
	if commas(predicate, anyDepth) >= maxValues {
		return Claim{}, verdict.Refuse(verdict.Limit, "provenance", "more than %d values", maxValues)
	}
	c, err := read(predicate)
	if err != nil {
		return Claim{}, err
	}
	c.PredicateType, c.statement = s.PredicateType(), s
	c.Source = c.findSource()
	return c, nil
}

// Statement is the statement that the claim was read from, with its raw bytes.
func (c Claim) Statement() intoto.Statement { return c.statement }

// IsZero reports whether c is the zero Claim.
func (c Claim) IsZero() bool { return c.statement.IsZero() }

// Parameter is the value of a parameter of the caller.
func (c Claim) Parameter(name string) (json.RawMessage, bool) { return lookup(c.Parameters, name) }

// InternalParameter is the value of a parameter of the platform.
func (c Claim) InternalParameter(name string) (json.RawMessage, bool) {
	return lookup(c.Internal, name)
}

func lookup(list []Parameter, name string) (json.RawMessage, bool) {
	i := slices.IndexFunc(list, func(p Parameter) bool { return p.Name == name })
	if i < 0 {
		return nil, false
	}
	return slices.Clone(list[i].Value), true
}

// Text is the value of a parameter, if it is a string.
func (c Claim) text(name string) string {
	var text string
	if value, ok := c.Parameter(name); !ok || json.Unmarshal(value, &text) != nil {
		return ""
	}
	return text
}

// Unexpected lists the caller's parameters that are not expected. An
// expectation that ends with a dot covers everything below it.
func (c Claim) Unexpected(expected ...string) (names []string) {
	for _, p := range c.Parameters {
		if !covered(expected, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}

func covered(names []string, name string) bool {
	return slices.ContainsFunc(names, func(e string) bool {
		return e != "" && (e == name || strings.HasSuffix(e, ".") && strings.HasPrefix(name, e))
	})
}

// decode parses a predicate or a part of it. Others extend these formats, so
// unknown fields are ignored.
func decode(raw json.RawMessage, into any) error {
	if err := strictjson.UnmarshalOpen(raw, into, strictjson.MaxSize(maxPredicate)); err != nil {
		return verdict.Wrap(verdict.StatementParse, "provenance", err)
	}
	return nil
}

// short limits untrusted text in a message.
func short(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}

// byproductTrace is the name of the byproduct with the trace in which a step
// ran, and byproductLog that of its log.
const (
	byproductTrace = "otel-trace"
	byproductLog   = "log"
)

// Traced makes the byproduct that names the trace and the span of a step, and
// the trace in which the release began, if known. All of it is in the URI,
// because a strict reader of the build type refuses unknown fields, but accepts
// any URI.
func Traced(ids trace.IDs) Resource {
	return Resource{Name: byproductTrace, URI: trace.URI(ids)}
}

// TraceOf returns the trace and the span of a step, and the trace in which its
// release began. Zero ids mean that the provenance does not give them, for
// example because it is older. A duplicate or malformed byproduct is refused.
func TraceOf(p Predicate) (ids trace.IDs, err error) {
	for _, r := range p.RunDetails.Byproducts {
		if r.Name != byproductTrace {
			continue
		}
		said, err := trace.ParseURI(r.URI)
		switch {
		case err != nil:
			return trace.IDs{}, verdict.Refuse(verdict.StatementParse, byproductTrace, "%v", err)
		case said.Span.IsZero():
			return trace.IDs{}, verdict.Refuse(verdict.StatementParse, byproductTrace, "%s names no span", r.URI)
		case !ids.IsZero():
			return trace.IDs{}, verdict.Refuse(verdict.StatementParse, byproductTrace, "the step ran in one trace, and two are named")
		}
		ids = said
	}
	return ids, nil
}

// LogOf returns the digests of a step's log, according to its provenance; false
// if the step had none.
func LogOf(p Predicate) (Resource, bool) {
	for _, r := range p.RunDetails.Byproducts {
		if r.Name == byproductLog {
			return r, true
		}
	}
	return Resource{}, false
}
