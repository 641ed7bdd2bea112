package promote

import (
	"context"
	"sync"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/tracing/carry"
	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// traceIDs are the trace in which an image was made, as far as it is known.
type traceIDs struct {
	// signed is from the evidence by which the image was accepted, hinted
	// from the annotations of its referrers, which anybody may have written.
	signed, hinted trace.IDs
}

// traceIDsOf reads the trace of an accepted image from what the judge has
// read already. It cannot fail: unreadable evidence gives no IDs.
func (o imageJob) traceIDsOf(ctx context.Context, v *verdict.Verdict) (of traceIDs) {
	there, err := o.src.Referrers(ctx, o.edge.Image, o.edge.Digest)
	if err != nil {
		return traceIDs{}
	}
	for _, r := range there {
		if ids := trace.FromAnnotations(r.Annotations); of.hinted.Initial.IsZero() && !ids.Trace.IsZero() {
			of.hinted = ids
		}
	}
	counted := map[digest.Digest]bool{}
	for _, p := range v.Proofs {
		counted[p.Bundle] = p.Statement == provenance.PredicateType || p.Statement == vsa.PredicateType
	}
	if len(counted) == 0 {
		return of
	}
	bundles, err := registry.Bundles(ctx, o.src, o.edge.Image, o.edge.Digest, provenance.PredicateType, vsa.PredicateType)
	if err != nil {
		return of
	}
	for _, raw := range bundles {
		if counted[digest.Of(digest.SHA256, raw)] && of.signed.Initial.IsZero() {
			of.signed = idsIn(raw)
		}
	}
	return of
}

// idsIn are the trace IDs in the statement of a verified bundle; zero if
// there are none, or if another program made it.
func idsIn(raw []byte) trace.IDs {
	bundle, err := verify.Read(raw)
	if err != nil {
		return trace.IDs{}
	}
	s, err := intoto.Parse(bundle.Payload)
	if err != nil {
		return trace.IDs{}
	}
	if s.PredicateType() == vsa.PredicateType {
		summary, err := vsa.Parse(s)
		if err != nil {
			return trace.IDs{}
		}
		ids, _ := vsa.TraceOf(summary) // as below
		return ids
	}
	said, err := provenance.Parse(s)
	if err != nil {
		return trace.IDs{}
	}
	ids, _ := provenance.TraceOf(said.Predicate) // malformed IDs are ignored
	return ids
}

// withTrace returns a context that continues the trace in which the image was
// made: by the signed IDs or, if there are none, by the hinted ones. A
// conflict with the run's own trace is noted if the IDs are signed.
func (o imageJob) withTrace(ctx context.Context, of traceIDs) context.Context {
	ids := of.signed
	if ids.Initial.IsZero() {
		ids = of.hinted
	}
	ctx, stamped, conflict := span.Stamp(ctx, trace.Update, ids)
	if conflict != nil && !of.signed.Initial.IsZero() {
		o.report.note(o.name() + ": " + conflict.Error())
	}
	return carry.WithInitial(ctx, stamped.Initial)
}

// signedTrace returns a context for statements to be signed: only signed IDs
// may be repeated under our signature.
func (of traceIDs) signedTrace(ctx context.Context) context.Context {
	return carry.WithInitial(ctx, of.signed.Initial)
}

// firstError is the first of the errors of several goroutines.
type firstError struct {
	mu  sync.Mutex // owns err
	err error
}

func (f *firstError) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}
