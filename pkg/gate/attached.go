package gate

import (
	"context"
	"errors"

	"github.com/sigstore/cosign/v2/pkg/oci"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// attached is the evidence that refers to a manifest in a registry.
type attached struct {
	holds  []verify.Evidence
	failed int     // invalid bundles; anyone who can write to the registry can attach one
	why    []error // they are invalid
	unread int     // number of bundles left unread because all together are too large
}

// readAttached verifies each bundle that refers to a manifest while reading it,
// and keeps the valid ones. A manifest that does not exist has none.
func readAttached(ctx context.Context, v verifier, of registry.Target, kinds ...string) (a attached, err error) {
	heard, err := registry.EachBundle(ctx, of, func(_ registry.Descriptor, raw []byte) {
		e, err := v.Attestation(raw)
		if err != nil {
			a.failed, a.why = a.failed+1, append(a.why, err)
			return
		}
		a.holds = append(a.holds, e)
	}, kinds...)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return attached{}, err
	}
	a.unread = heard.Unread
	return a, nil
}

// note reports the bundles that were ignored.
func (a attached) note(f *facts, name string) {
	if a.failed > 0 {
		f.note("%s: ignored %d invalid of %s", name, a.failed, plural.Of(a.failed+len(a.holds), "attached bundle"))
	}
	a.noteUnread(f, name)
}

func (a attached) noteUnread(f *facts, name string) {
	if a.unread > 0 {
		f.note("%s: the attached bundles are together too large; not read: the largest %d", name, a.unread)
	}
}

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
