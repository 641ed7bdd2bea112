package gate

import (
	"context"
	"errors"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/intoto"
	"github.com/waybill-release/waybill/pkg/legacy"
	"github.com/waybill-release/waybill/pkg/registry"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
)

// kind is the kind of signer, as the legacy forms want it said.
func (s Signer) kind() legacy.Signer {
	if s.keyed {
		return legacy.Key
	}
	return legacy.Certificate
}

// holds refuses a signature that the key which was given did not make, before
// a log is asked about it. What came with its log entry is held against that.
func (s Signer) holds(m legacy.Material) error {
	if !s.keyed || m.Logged() {
		return nil
	}
	return m.CheckKey(s.public)
}

// detached reads FILE's signature and certificate, which are files of their
// own.
func (f File) detached(by legacy.Signer, artifact digest.Digest) (legacy.Material, error) {
	signature, err := f.read(f.Signature, legacy.MaxSignature)
	if err != nil {
		return legacy.Material{}, err
	}
	var certificate []byte
	if f.Certificate != "" {
		if certificate, err = f.read(f.Certificate, legacy.MaxCertificate); err != nil {
			return legacy.Material{}, err
		}
	}
	return legacy.ParseFiles(by, artifact, signature, certificate)
}

// proveLegacy proves a file's signature in a form from before the bundle.
func (r FileRequest) proveLegacy(ctx context.Context, m legacy.Material, t target) (verify.Evidence, error) {
	if err := r.Ask.Signer.holds(m); err != nil {
		return verify.Evidence{}, err
	}
	return r.Finder.Prove(ctx, m, func(bundle []byte) (verify.Evidence, error) {
		return r.Ask.Signer.verifier.Blob(bundle, t.digests)
	})
}

// attached judges what clients attached to a manifest by a tag, before there
// were referrers. Whoever can write the tag can attach anything.
func (r ImageRequest) attached(ctx context.Context, image Image, d registry.Descriptor, t target) (found []proven, misses []miss, err error) {
	suffix, kind := registry.SuffixAttestations, r.Ask.Type
	if kind == intoto.CosignSignature {
		suffix, kind = registry.SuffixSignatures, verify.KindImage
	}
	layers, err := registry.AttachedTo(ctx, image.Source, image.Repository, d.Digest, suffix)
	var down *registry.UnavailableError
	if errors.As(err, &down) {
		return nil, nil, err
	}
	if err != nil {
		return nil, []miss{{Finding: verdict.FindingOf(t.name, err)}}, nil
	}
	for _, layer := range layers {
		e, err := legacyEvidence{r.Ask.Signer, r.Finder}.layer(ctx, layer, d.Digest, suffix)
		var proof verdict.Proof
		if err == nil {
			proof, err = r.Ask.judge(e, kind, t)
		}
		if err != nil {
			misses = append(misses, miss{verdict.FindingOf(t.name, err), !e.IsZero() && !r.Ask.Signer.made(e)})
			continue
		}
		found = append(found, proven{proof, e})
	}
	return found, misses, nil
}
