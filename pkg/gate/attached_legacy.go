package gate

import (
	"context"

	"github.com/sigstore/cosign/v2/pkg/oci"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// readLegacy verifies the layers of a legacy tag (sha256-….sig or .att), by
// which clients attached evidence before OCI had referrers. Invalid layers are
// ignored, since anyone who can write the tag can attach anything. An error
// says why there may be more evidence than was found.
func (r evidenceReader) readLegacy(ctx context.Context, of registry.Target, suffix string) (found []verify.Evidence, invalid []error, down error) {
	layers, err := registry.AttachedTo(ctx, of.Source, of.Repository, of.Digest, suffix)
	switch {
	case verdict.OutcomeOf(err) == verdict.Unavailable || err != nil && verdict.FindingOf("", err).Code == verdict.Limit: // the evidence that is looked for may be in the unread part
		return nil, nil, err
	case err != nil:
		return nil, []error{err}, nil //nolint:nilerr // it is returned among what does not hold: anyone who can write the tag can write nonsense
	}
	for _, layer := range layers {
		e, err := r.verifyLayer(ctx, layer, of.Digest, suffix)
		switch {
		case err == nil:
			found = append(found, e)
		case verdict.OutcomeOf(err) == verdict.Unavailable:
			down = err
		default:
			invalid = append(invalid, err)
		}
	}
	return found, invalid, down
}

// verifyLayer verifies one layer of a legacy tag: a signature over a payload
// that names the image, or an attestation.
func (r evidenceReader) verifyLayer(ctx context.Context, l oci.Signature, image digest.Digest, suffix string) (verify.Evidence, error) {
	parse := legacy.ParseAttestation
	if suffix == registry.SuffixSignatures {
		parse = legacy.ParseLayer
	}
	m, err := parse(r.signer.kind(), l)
	if err != nil {
		return verify.Evidence{}, err
	}
	if err := r.signer.checkKey(m); err != nil {
		return verify.Evidence{}, err
	}
	return r.finder.Prove(ctx, m, func(bundle []byte) (verify.Evidence, error) {
		if m.IsAttestation() {
			return r.signer.verifier.Layer(bundle)
		}
		return r.signer.verifier.Image(bundle, m.Payload(), image)
	})
}
