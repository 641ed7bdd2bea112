package gate

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/format"
	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// verifyList verifies each statement of a list. Those of another type than the
// requested one are set aside unverified. [byIdentity] judges the rest as it
// judges the bundles of an image: one must meet the request.
func (r FileRequest) verifyList(ctx context.Context, file format.File, i *item, facts *facts) error {
	i.chosen = false
	aside := map[string]bool{}
	for _, entry := range file.Entries {
		if r.Ask.Type != "" && entry.Type != "" && entry.Type != r.Ask.Type {
			aside[entry.Type] = true
		} else if e, err := r.verifyEntry(ctx, entry, *i); err != nil {
			i.invalid = append(i.invalid, err)
		} else {
			i.evidence = append(i.evidence, e)
		}
	}
	types := strings.Join(slices.Sorted(maps.Keys(aside)), ", ")
	switch {
	case len(i.evidence)+len(i.invalid) == 0:
		return verdict.Refuse(verdict.PredicateNone, i.question.Subject, "no statement of the list has type %s; it has %s", r.Ask.Type, types)
	case types != "":
		facts.note("%s: set aside, unverified: statements of other types (%s)", i.question.Subject, types)
	}
	return nil
}

// verifyEntry verifies one bundle or envelope. An envelope that only a key can
// prove counts where the caller accepts it.
func (r FileRequest) verifyEntry(ctx context.Context, entry format.Entry, i item) (verify.Evidence, error) {
	if !entry.Bare {
		return r.verifyBundle(ctx, entry.Bundle, i)
	}
	key, keyed := r.Ask.Signer.verifier.(*verify.KeyVerifier)
	switch {
	case !keyed:
		return verify.Evidence{}, verdict.Refuse(verdict.MaterialKind, "envelope", "signed with a key, want a certificate with an identity")
	case r.Ask.Type == "":
		return verify.Evidence{}, verdict.Refuse(verdict.MaterialKind, "envelope", "an attestation, not a signature of the file")
	case !r.Ask.Signer.unlogged:
		return verify.Evidence{}, verdict.Refuse(verdict.LogMissing, "envelope", "an envelope alone is in no transparency log and has no signed time")
	}
	e, err := key.InsecureEnvelope(entry.Bundle)
	for _, other := range entry.Others {
		if err == nil {
			break
		}
		e, err = key.InsecureEnvelope(other)
	}
	return e, err
}

// verifyBundle verifies a bundle: an attestation if one is required, else a
// plain signature, also in the form that cosign wrote before bundles.
func (r FileRequest) verifyBundle(ctx context.Context, raw []byte, i item) (verify.Evidence, error) {
	if r.Ask.Type != "" {
		if said, err := verify.Read(raw); err == nil && !said.IsAttestation() && !i.chosen {
			return verify.Evidence{}, verdict.Refuse(verdict.PredicateNone, i.question.Subject, "the bundle beside the file is a plain signature, not an attestation of type %s", r.Ask.Type)
		}
		return r.Ask.Signer.verifier.Attestation(raw)
	}
	if !legacy.IsBundle(raw) {
		return r.Ask.Signer.verifier.BlobSHA384(raw, i.question.Bytes, i.sha384)
	}
	m, err := legacy.ParseBundle(r.Ask.Signer.kind(), i.question.Bytes.SHA256, raw)
	if err != nil {
		return verify.Evidence{}, err
	}
	return r.verifyLegacy(ctx, m, i.question.Bytes)
}

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
