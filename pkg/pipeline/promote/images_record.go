package promote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/document/promotionrecord"
	"github.com/waybill-release/waybill/pkg/produce/attest"
	"github.com/waybill-release/waybill/pkg/value/digest"
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
