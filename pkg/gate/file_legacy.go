package gate

import (
	"context"

	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// kind is the kind of signer, as package legacy names it.
func (s Signer) kind() legacy.Signer {
	if s.keyed {
		return legacy.Key
	}
	return legacy.Certificate
}

// checkKey refuses a signature by another key than the given one before the log
// is asked about it. A certificate or key that came with its log entry is
// compared too.
func (s Signer) checkKey(m legacy.Material) error {
	if !s.keyed || m.Logged() {
		return nil
	}
	return m.CheckKey(s.public)
}

// detached reads a file's signature and certificate from files of their own.
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

// verifyLegacy verifies a file's signature in a legacy form.
func (r FileRequest) verifyLegacy(ctx context.Context, m legacy.Material, digests digest.Set) (verify.Evidence, error) {
	if err := r.Ask.Signer.checkKey(m); err != nil {
		return verify.Evidence{}, err
	}
	return r.Finder.Prove(ctx, m, func(bundle []byte) (verify.Evidence, error) {
		return r.Ask.Signer.verifier.BlobSHA384(bundle, digests, nil)
	})
}
