package gate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/judge/census"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/order"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const (
	// maxUnsealed is the largest file of a release with unsigned sizes, and
	// maxUnsealedSum the largest sum of all its files.
	maxUnsealed    = 4 << 30
	maxUnsealedSum = 64 << 30
)

// hashedFiles are the files of the release that were hashed.
type hashedFiles struct {
	digests map[string]digest.Set // by their names in the release
	given   map[string]string     // paths of the given files, by their names in the release; nil if none were given
	kept    []string              // names of those in the place
}

// needSignatures returns the names of the files that are judged by the policy.
func (h hashedFiles) needSignatures(asked k8slayout.Set) []string {
	return slice.Filter(asked.Names(), func(name string) bool {
		return len(policy.ChecksOf(k8slayout.KindOf(name).Class)) > 0 && (h.given == nil || h.given[name] != "")
	})
}

// checkFiles hashes the files in the place once, and compares them with all
// documents. Read are the digests of the documents as they were read before.
func (u unsealed) checkFiles(ctx context.Context, sbom signedSBOM, read map[string]digest.Digest, part part) (hashedFiles, facts) {
	h := sbom.file()
	var f facts
	objects, listed := u.listPlace(ctx, part.asked, &f)
	objects = part.asksAbout(objects)
	items := u.hashPlace(ctx, sbom, part.asked, objects, &f)
	for _, item := range items {
		if h.digests[item.Name] = item.Digests; !item.Digests.IsZero() {
			h.kept = append(h.kept, item.Name)
		}
		if before, is := read[item.Name]; is && !before.Equal(item.Digests.SHA256) {
			f.fail(item.Name, changed(item.Name, before, item.Digests.SHA256))
		}
	}
	f.addInputs(verdict.Input{Name: "files", Place: u.Files.URI()})
	f.refuse(part.asked.Compare(items)...)
	u.checkTagFiles(sbom, part.asked, h, &f)
	if !listed {
		f.leave("extra files: not looked for, because the place cannot be listed")
	}
	signed := slice.Count(part.asked.Names(), func(name string) bool { return k8slayout.KindOf(name).Signed })
	f.note("%d of %d objects are signed files; the others are their signatures, and unsigned checksums, sidecars, tags and documents, which are not evidence", signed, len(objects))
	return h, f
}

// listPlace returns the objects of the place. If it cannot be listed, every
// expected name is tried.
func (u unsealed) listPlace(ctx context.Context, asked k8slayout.Set, f *facts) ([]store.Object, bool) {
	objects, err := u.Files.List(ctx)
	if err == nil {
		return objects, true
	}
	if !errors.Is(err, store.ErrNotListable) || u.Policy.Closes(policy.Files) == policy.Require {
		f.fail(u.Files.URI(), err)
	}
	for _, name := range asked.Names() {
		objects = append(objects, store.Object{Name: name})
		if k8slayout.KindOf(name).Summed {
			objects = append(objects, store.Object{Name: name + ".sha256"}, store.Object{Name: name + ".sha512"})
		}
	}
	order.Sort(objects, func(a, b store.Object) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(objects, func(a, b store.Object) bool { return a.Name == b.Name }), false
}

// hashPlace hashes every object to its end. Signatures are read when they are
// needed. An object that no document names is not read: its presence is enough
// to refuse.
func (u unsealed) hashPlace(ctx context.Context, sbom signedSBOM, asked k8slayout.Set, objects []store.Object, f *facts) (there []census.Item) {
	named := map[string]bool{}
	for _, name := range asked.Names() {
		named[name], named[name+".sha256"], named[name+".sha512"] = true, true, true
	}
	f.digests = u.digestsCompared()
	h := hashing{place: u.Files, all: len(f.digests) > 1, options: u.Options, left: new(atomic.Int64)}
	h.left.Store(maxUnsealedSum)
	items, errs := h.sum(ctx, objects, named, sbom.largest)
	for i, err := range errs {
		switch {
		case err == nil:
			there = append(there, items[i])
		case !errors.Is(err, store.ErrNotFound):
			f.fail(items[i].Name, err)
			there = append(there, census.Item{Name: items[i].Name}) // present, but unreadable
		}
	}
	return there
}

// largest is the largest possible size of a file. No document gives sizes, but
// a file without bytes in the signed SBOM is either a document or refused.
func (s signedSBOM) largest(o store.Object) int64 {
	if s.Bytes(o.Name).IsZero() {
		return maxDocument
	}
	return maxUnsealed
}

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
