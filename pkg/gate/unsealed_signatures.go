package gate

import (
	"context"
	"errors"
	"slices"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxAsked is how many signatures are imageAnswer up in the log in parallel.
const maxAsked = 16

// checkSignatures judges each file by the signature beside it. Files with a
// finding are left out: their evidence is about other bytes. A signature covers
// neither name nor version, so the SBOM must list the bytes under the name. The
// signature of the SBOM is read a second time, because a download keeps only
// what is read after it knows the expected files.
func (u unsealed) checkSignatures(ctx context.Context, sbom signedSBOM, files hashedFiles, names []string, holds func(name string) bool) []item {
	due := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !holds(name) || files.digests[name].IsZero() })
	items := make([]item, len(due))
	p := u.Options.watch(Progress{What: "reading the signatures of", Unit: "files", OfFiles: len(due)})
	atonce.Each(maxAsked, due, func(i int, name string) { // they wait for a log, not for a processor
		items[i] = u.answered(u.fileItem(ctx, name, files.digests[name]))
		p.add(0, 1)
	})
	for i, name := range due {
		if k8slayout.KindOf(name).Signed && items[i].isProven() {
			items[i].differ(u.bindFile(ctx, sbom, name, files.digests[name]))
		}
	}
	return items
}

// fileItem is one file with the signature beside it.
func (u unsealed) fileItem(ctx context.Context, name string, bytes digest.Set) item {
	i := item{question: u.question(k8slayout.KindOf(name).Class, name, bytes)}
	e, err := u.fileSignature(ctx, name, bytes)
	if err != nil {
		i.question.Why[policy.Signature] = about(name, err)
		return i
	}
	i.evidence = []verify.Evidence{e}
	return i
}

// fileSignature verifies the signature beside a file, with its certificate.
func (u unsealed) fileSignature(ctx context.Context, name string, bytes digest.Set) (verify.Evidence, error) {
	var parts [2][]byte
	for i, suffix := range []string{k8slayout.SignatureSuffix, k8slayout.CertificateSuffix} {
		raw, err := store.Read(ctx, u.Files, name+suffix, legacy.MaxCertificate)
		if errors.Is(err, store.ErrNotFound) {
			return verify.Evidence{}, verdict.Refuse(verdict.Unsigned, name, "there is no %s beside the file", name+suffix).Advise(unsignedAct)
		}
		if err != nil {
			return verify.Evidence{}, err
		}
		parts[i] = raw
	}
	m, err := legacy.ParseFiles(legacy.Certificate, bytes.SHA256, parts[0], parts[1])
	if err != nil {
		return verify.Evidence{}, err
	}
	return u.Finder.Prove(ctx, m, func(bundle []byte) (verify.Evidence, error) {
		return u.Verifier.Blob(bundle, bytes)
	})
}

// about names the file in a refusal about a part of its evidence.
func about(name string, err error) error {
	var refusal *verdict.Error
	if !errors.As(err, &refusal) || refusal.Finding.Subject == name {
		return err
	}
	f := refusal.Finding
	f.Subject, f.Message = name, f.Subject+": "+f.Message
	return &verdict.Error{Finding: f, Cause: err}
}
