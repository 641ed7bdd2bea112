package seal

import (
	"context"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/tracing/carry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// images attaches to every image index and platform: the builder's
// provenance, the SBOM signed by the release identity, and its signature. The
// signature comes last: an image that has one has the others.
func (s *Signed) images(ctx context.Context, l signingInput) error {
	pending, err := s.unsignedImages(ctx, l)
	if err != nil {
		return err
	}
	var documents, signatures []imageStatement
	for _, image := range pending {
		if !l.Plan.IsGiven() {
			bundle, err := readFile(ctx, l.Request, plan.ProvenanceName(image.Step))
			if err != nil {
				return err
			}
			if err := attach(ctx, l.Workspace.Images(), image.manifestAt, l.evidence(bundle, provenance.PredicateType, l.ran[image.Step])); err != nil {
				return err
			}
		}
		document, signature, err := l.statements(ctx, image)
		if err != nil {
			return err
		}
		documents, signatures = append(documents, document...), append(signatures, signature)
	}
	names := map[digest.Digest]string{}
	for _, image := range pending {
		names[image.Digest] = image.Name
	}
	for _, list := range [][]imageStatement{documents, signatures} {
		if err := attestImages(ctx, l.Request, list); err != nil {
			return naming(err, func(i int) string { return names[list[i].Digest] })
		}
	}
	s.Images = len(pending)
	return nil
}

// planned is a planned image, with its manifest.
type planned struct {
	plan.Artifact
	manifestAt
}

// unsignedImages are those without a valid signature. All of them are checked
// before the first is signed.
func (s *Signed) unsignedImages(ctx context.Context, l signingInput) (list []planned, err error) {
	images, err := imagesOf(ctx, l)
	if err != nil {
		return nil, err
	}
	for _, image := range images {
		held, err := signatureOf(ctx, l.Request, image.Artifact, image.Descriptor)
		if err != nil {
			return nil, err
		}
		if !held.IsZero() {
			s.Held++
			continue
		}
		list = append(list, image)
	}
	return list, nil
}

// manifestAt is one manifest of an image, in its repository.
type manifestAt struct {
	repository string
	registry.Descriptor
}

// imageStatement is a statement to be made about an image.
type imageStatement struct {
	manifestAt
	predicateType string
	predicate     any
}

// attestImages signs statements about images and attaches them.
func attestImages(ctx context.Context, req Request, list []imageStatement) error {
	if len(list) == 0 {
		return nil
	}
	orders, err := ordersOf(list)
	if err != nil {
		return err
	}
	return req.Signer.Each(ctx, orders, func(i int, bundle []byte, _ verify.Evidence) error {
		return attach(ctx, req.Workspace.Images(), list[i].manifestAt, req.evidence(bundle, list[i].predicateType, inRun(ctx, req, orders[i])))
	})
}

func ordersOf(list []imageStatement) (orders []sign.Order, err error) {
	orders = make([]sign.Order, len(list))
	for i, a := range list {
		// A registry knows digests and no names: a signature with other names
		// could not be compared with what is pulled.
		subject := intoto.Subject{Digests: digest.Set{SHA256: a.Digest}}
		if orders[i].Statement, err = intoto.New(a.predicateType, []intoto.Subject{subject}, a.predicate); err != nil {
			return nil, err
		}
	}
	return orders, nil
}

// evidence is a bundle about an image, and the run that made it, if that is
// to be named.
type evidence struct {
	bundle        []byte
	predicateType string
	ids           trace.IDs
}

func (r Request) evidence(bundle []byte, predicateType string, ids trace.IDs) evidence {
	if r.Hints != nil && !r.Hints() {
		ids = trace.IDs{}
	}
	return evidence{bundle, predicateType, ids}
}

// inRun is the run that made the signature of an order, not the one that
// continues it: otherwise the attachment would differ.
func inRun(ctx context.Context, req Request, o sign.Order) trace.IDs {
	now := req.Signer.Began(o)
	if now.IsZero() {
		now = carry.From(ctx)
	}
	if now.IsZero() {
		return trace.IDs{}
	}
	ids, _ := trace.Stamp(trace.Update, now, req.Workspace.Identity().Trace)
	return ids
}

// attach makes evidence refer to an image, unless it does already, whichever
// run attached it.
func attach(ctx context.Context, images *registry.Layout, m manifestAt, e evidence) error {
	if there, err := registry.Refers(ctx, images, m.repository, m.Digest, e.bundle); err != nil || there {
		return err
	}
	d, manifest, blobs := registry.HintedManifest(m.Descriptor, e.bundle, e.predicateType, e.ids.Annotations())
	return registry.Parcel{Descriptor: d, Raw: manifest, Blobs: blobs}.PushTo(ctx, images, m.repository)
}

// signatureOf is the digest of the valid signature bundle of an image, or
// zero.
func signatureOf(ctx context.Context, req Request, a plan.Artifact, d registry.Descriptor) (digest.Digest, error) {
	bundles, err := registry.Bundles(ctx, req.Workspace.Images(), a.Repository, d.Digest)
	if err != nil {
		return digest.Digest{}, err
	}
	for _, raw := range bundles {
		e, err := req.Verifier.Attestation(raw)
		if err != nil {
			continue // of others, or incomplete: does not count
		}
		ask := policy.Ask{Role: policy.Release, Kind: intoto.CosignSignature, Subject: a.Name, Bytes: digest.Set{SHA256: d.Digest}, InRegistry: true}
		if proof, err := req.Policy.Judge(e, ask); err == nil {
			return proof.Bundle, nil
		}
	}
	return digest.Digest{}, nil
}

// findImage finds an image, or one platform of it, in the layout, with the
// bytes of its manifest.
func findImage(ctx context.Context, req Request, a plan.Artifact) (registry.Descriptor, []byte, error) {
	images := req.Workspace.Images()
	d, err := images.Resolve(ctx, a.Repository, req.Plan.Version.ImageTag())
	if err != nil {
		return registry.Descriptor{}, nil, verdict.Wrap(verdict.SealMissing, a.Name, err)
	}
	node, err := registry.Graph(ctx, images, a.Repository, d)
	if err != nil {
		return registry.Descriptor{}, nil, err
	}
	part := node.Part(a.InIndex())
	if part == nil {
		return registry.Descriptor{}, nil, verdict.Refuse(verdict.SealMissing, a.Name, "the image has no platform %s", a.Platform)
	}
	return part.Descriptor, part.Raw, nil
}
