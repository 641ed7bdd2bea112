package gate

import (
	"context"
	"errors"

	"github.com/sigstore/cosign/v2/pkg/oci"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/legacy"
	"github.com/waybill-release/waybill/pkg/registry"
	"github.com/waybill-release/waybill/pkg/rekor"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
)

// legacyEvidence proves what clients attached to manifests by tags, before there
// were referrers. Of the signer its verifier and its kind are used.
type legacyEvidence struct {
	signer Signer
	finder rekor.Finder
}

// of proves the layers of such a tag. What does not hold is foreign, and counts
// for nothing; why nothing can be known is returned besides what is known.
func (o legacyEvidence) of(ctx context.Context, image Image, d digest.Digest, suffix string) (evidence []verify.Evidence, foreign int, down error) {
	layers, err := registry.AttachedTo(ctx, image.Source, image.Repository, d, suffix)
	if verdict.OutcomeOf(err) == verdict.Unavailable {
		return nil, 0, err
	}
	var long *registry.LimitError
	if errors.As(err, &long) {
		return nil, 0, err // ours may be among what was not read
	}
	if err != nil {
		return nil, 1, nil //nolint:nilerr // whoever can write the tag can write nonsense
	}
	for _, layer := range layers {
		e, err := o.layer(ctx, layer, d, suffix)
		switch {
		case err == nil:
			evidence = append(evidence, e)
		case verdict.OutcomeOf(err) == verdict.Unavailable:
			down = err
		default:
			foreign++
		}
	}
	return evidence, foreign, down
}

// layer proves one layer of such a tag: the signature of a payload that names
// the image, or an attestation.
func (o legacyEvidence) layer(ctx context.Context, l oci.Signature, image digest.Digest, suffix string) (verify.Evidence, error) {
	parse := legacy.ParseAttestation
	if suffix == registry.SuffixSignatures {
		parse = legacy.ParseLayer
	}
	m, err := parse(o.signer.kind(), l)
	if err != nil {
		return verify.Evidence{}, err
	}
	if err := o.signer.holds(m); err != nil {
		return verify.Evidence{}, err
	}
	return o.finder.Prove(ctx, m, func(bundle []byte) (verify.Evidence, error) {
		if m.IsAttestation() {
			return o.signer.verifier.Attestation(bundle)
		}
		return o.signer.verifier.Image(bundle, m.Payload(), image)
	})
}
