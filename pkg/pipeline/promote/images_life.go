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

// life is where an image came from, as far as that is known.
type life struct {
	// signed is what evidence says by which the image was accepted, and hinted
	// what the annotations of its referrers say, which anybody may have written.
	signed, hinted trace.IDs
}

// lifeOf reads the life of an image that was accepted, of what the judge has
// read already. It is nothing to fail for: what cannot be read is not known.
func (o one) lifeOf(ctx context.Context, v *verdict.Verdict) (of life) {
	there, err := o.src.Referrers(ctx, o.edge.Image, o.edge.Digest)
	if err != nil {
		return life{}
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
			of.signed = saidIn(raw)
		}
	}
	return of
}

// saidIn are the ids in the statement of a bundle that was verified; zero where
// it says none, and where another program made it.
func saidIn(raw []byte) trace.IDs {
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
	ids, _ := provenance.TraceOf(said.Predicate) // ids that are none are for nobody to be led by
	return ids
}

// enter returns a context in which what is done belongs to the life of the
// image: as what was signed says, and if that says nothing, as the hints do.
// That this run came with another beginning is noted, if what was signed says so.
func (o one) enter(ctx context.Context, of life) context.Context {
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

// vouched returns a context for what will be signed: a hint is for nobody to
// put his name to.
func (of life) vouched(ctx context.Context) context.Context {
	return carry.WithInitial(ctx, of.signed.Initial)
}

// firstError is the first of the errors of several goroutines.
type firstError struct {
	mu  sync.Mutex // owns err
	err error
}

func (f *firstError) saw(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}
