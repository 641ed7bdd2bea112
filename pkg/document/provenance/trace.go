package provenance

import (
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

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
func TraceOf(p Predicate) (trace.IDs, error) {
	var ids trace.IDs
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
