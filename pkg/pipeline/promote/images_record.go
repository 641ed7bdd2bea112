package promote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/tracing/carry"
	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/promotionrecord"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/attest"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Recorder signs records of a promoted image, as [*attest.Records] does: once
// for each of its manifests, whatever the number of destinations and calls.
type Recorder interface {
	Image(ctx context.Context, p attest.Promoted) ([]attest.Signed, error)
}

// record signs records of the image at all the destinations that have it.
func (o imageJob) record(ctx context.Context, at []*target, judged *verdict.Verdict) ([]attest.Signed, error) {
	image := at[0].copied.Image
	p := attest.Promoted{
		Source: o.route.Source + "/" + o.edge.Image, Digest: o.edge.Digest, Verdict: judged,
		Manifest: promotionrecord.Resource{Name: "promotion plan", Digest: map[string]string{"sha256": o.plan.Hex()}},
	}
	_ = image.Walk(func(n *registry.Node) error { // the visitor returns no error
		if n != image {
			p.Children = append(p.Children, n.Descriptor.Digest)
		}
		return nil
	})
	// Destinations that had it before are named, too: a run that continues an
	// interrupted one then makes the same record, and needs no second one.
	for _, name := range o.route.Destinations {
		p.For = append(p.For, name+"/"+o.edge.Image)
		here := func(t *target) bool { return t.name == name }
		if slices.ContainsFunc(at, here) || slices.Contains(o.there, name) {
			p.Destinations = append(p.Destinations, attest.Destination{Ref: name + "/" + o.edge.Image, Tags: o.edge.Tags})
		}
	}
	for _, t := range at {
		p.There = append(p.There, t.there...)
	}
	ctx, end := span.Start(o.trace.signedTrace(ctx), span.Record, span.PipelineTaskName.String("record "+o.edge.Image))
	signed, err := o.Records.Image(ctx, p)
	end(err)
	if err != nil {
		return nil, fmt.Errorf("recording the promotion: %w", err)
	}
	return signed, nil
}

// recorded reads what refers to the image at a destination that has it
// already, and may have the records of an earlier run. A new destination has
// none.
func (o imageJob) recorded(ctx context.Context, t *target) error {
	if o.Records == nil {
		return nil
	}
	node, err := registry.Target{Source: t.remote, Repository: o.edge.Image}.Graph(ctx, o.edge.Digest.String())
	if errors.Is(err, registry.ErrNotFound) {
		return nil // no copy, or a partial one, which has no records
	}
	if err != nil {
		return err
	}
	return node.Walk(func(n *registry.Node) error {
		bundles, err := registry.Bundles(ctx, t.remote, o.edge.Image, n.Descriptor.Digest)
		t.there = append(t.there, bundles...)
		return err
	})
}

// attach makes the records refer to the image at a destination.
func (o imageJob) attach(ctx context.Context, t *target, records []attest.Signed) error {
	of := map[digest.Digest]registry.Descriptor{}
	_ = t.copied.Image.Walk(func(n *registry.Node) error { // the visitor returns no error
		of[n.Descriptor.Digest] = n.Descriptor
		return nil
	})
	for _, r := range records {
		subject, known := of[r.Of]
		if !known {
			return fmt.Errorf("recording the promotion: a record is about %s, which is not part of the image", r.Of)
		}
		d, raw, blobs := registry.HintedManifest(subject, r.Bundle, r.Kind, r.IDs.Annotations())
		if there, is, err := t.attached(ctx, o.edge.Image, r); err != nil {
			return err
		} else if is {
			t.copied.Referrers[r.Of] = append(t.copied.Referrers[r.Of], there)
			continue
		}
		if err := (registry.Parcel{Descriptor: d, Raw: raw, Blobs: blobs}).PushTo(ctx, registry.ReadLater{Remote: t.remote}, o.edge.Image); err != nil {
			return err
		}
		t.copied.Referrers[r.Of] = append(t.copied.Referrers[r.Of], d)
		t.copied.Blobs = append(t.copied.Blobs, blobs[len(blobs)-1].Descriptor) // they all have the same configuration
	}
	return nil
}

// attached is the manifest by which a record refers to the image at the
// destination already, perhaps with other trace annotations, which do not
// justify a second one.
func (t *target) attached(ctx context.Context, image string, r attest.Signed) (registry.Descriptor, bool, error) {
	if !slices.ContainsFunc(t.there, func(raw []byte) bool { return bytes.Equal(raw, r.Bundle) }) {
		return registry.Descriptor{}, false, nil
	}
	return registry.ReferrerOf(ctx, t.remote, image, r.Of, r.Bundle)
}

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
