package provenance

import (
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// byproductTrace is the name of the byproduct that says in which trace a step
// ran, and byproductLog that of its log.
const (
	byproductTrace = "otel-trace"
	byproductLog   = "log"
)

// Traced makes the byproduct that names the trace and the span in which a step
// ran, and the trace in which the release began, if that is known. All of it is
// in the address: a reader of the build type refuses fields that it does not
// know, and takes any address.
func Traced(ids trace.IDs) Resource {
	return Resource{Name: byproductTrace, URI: trace.URI(ids)}
}

// TraceOf is the trace and the span in which a step says that it ran, and the
// trace in which its release began. Zero ids mean that it says nothing: it is
// older than the ids, and what it does not say is not known. What says it twice,
// or in another form, is refused.
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

// LogOf is the log of a step as its provenance names it, by its digests; not
// there where the step had none.
func LogOf(p Predicate) (Resource, bool) {
	for _, r := range p.RunDetails.Byproducts {
		if r.Name == byproductLog {
			return r, true
		}
	}
	return Resource{}, false
}
