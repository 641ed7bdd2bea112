package seal

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/intoto"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/provenance"
	"github.com/waybill-release/waybill/pkg/registry"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// signImages attaches to every image index and platform: a signature, the
// SBOM signed by the release identity, and the builder's provenance.
func signImages(ctx context.Context, req Request, p proven) (int, error) {
	signed := 0
	for _, a := range req.Plan.Artifacts {
		if !a.IsImage() {
			continue
		}
		d, _, err := findImage(ctx, req, a)
		if err != nil {
			return 0, err
		}
		if !p.bytes[a.Name].SHA256.Equal(d.Digest) {
			return 0, notVouched(a.Name, p.bytes[a.Name], digest.Set{SHA256: d.Digest})
		}
		if held, err := signatureOf(ctx, req, a, d); err != nil || !held.IsZero() {
			if err != nil {
				return 0, err
			}
			continue
		}
		if err := signImage(ctx, req, a, d, p.bytes[a.Name]); err != nil {
			return 0, fmt.Errorf("signing %q: %w", a.Name, err)
		}
		signed++
	}
	return signed, nil
}

func signImage(ctx context.Context, req Request, a plan.Artifact, d registry.Descriptor, set digest.Set) error {
	bundle, err := readFile(ctx, req, plan.ProvenanceName(a.Step))
	if err != nil {
		return err
	}
	if err := attach(ctx, req.Workspace.Images(), manifestAt{a.Repository, d}, bundle, provenance.PredicateType); err != nil {
		return err
	}
	document, err := imageSBOM(ctx, req, a, d)
	if err != nil {
		return err
	}
	if document != nil {
		if err := attestImage(ctx, req, manifestAt{a.Repository, d}, intoto.SPDXDocument, json.RawMessage(document)); err != nil {
			return err
		}
	}
	return attestImage(ctx, req, manifestAt{a.Repository, d}, intoto.CosignSignature, struct{}{})
}

// manifestAt is one manifest of an image, in its repository.
type manifestAt struct {
	repository string
	registry.Descriptor
}

// attestImage signs a statement about an image and attaches it.
func attestImage(ctx context.Context, req Request, m manifestAt, predicateType string, predicate any) error {
	// A registry knows one digest and no name: a signature that named other
	// things could not be compared with what is pulled.
	subject := intoto.Subject{Digests: digest.Set{SHA256: m.Digest}}
	statement, err := intoto.New(predicateType, []intoto.Subject{subject}, predicate)
	if err != nil {
		return err
	}
	bundle, _, err := req.Signer.Statement(ctx, statement)
	if err != nil {
		return err
	}
	return attach(ctx, req.Workspace.Images(), m, bundle, predicateType)
}

func attach(ctx context.Context, images *registry.Layout, m manifestAt, bundle []byte, predicateType string) error {
	d, manifest, blobs := registry.BundleManifest(m.Descriptor, bundle, predicateType)
	for _, b := range blobs {
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes)), nil }
		if err := images.PushBlob(ctx, m.repository, b.Descriptor, open); err != nil {
			return err
		}
	}
	return images.PushManifest(ctx, m.repository, d, manifest)
}

// signatureOf is the digest of the signature bundle that an image carries and
// that holds, or zero.
func signatureOf(ctx context.Context, req Request, a plan.Artifact, d registry.Descriptor) (digest.Digest, error) {
	bundles, err := registry.Bundles(ctx, req.Workspace.Images(), a.Repository, d.Digest)
	if err != nil {
		return digest.Digest{}, err
	}
	for _, raw := range bundles {
		e, err := req.Verifier.Attestation(raw)
		if err != nil {
			continue // somebody else's, or half written: not ours to count
		}
		ask := policy.Ask{Role: policy.Release, Kind: intoto.CosignSignature, Subject: a.Name, Bytes: digest.Set{SHA256: d.Digest}, InRegistry: true}
		if proof, err := req.Policy.Judge(e, ask); err == nil {
			return proof.Bundle, nil
		}
	}
	return digest.Digest{}, nil
}

// findImage finds an image, or one platform of it, in the layout, with the
// very bytes of its manifest.
func findImage(ctx context.Context, req Request, a plan.Artifact) (registry.Descriptor, []byte, error) {
	images := req.Workspace.Images()
	d, err := images.Resolve(ctx, a.Repository, req.Plan.Version.String())
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
