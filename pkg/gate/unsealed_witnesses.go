package gate

import (
	"context"
	"errors"
	"fmt"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// witnesses are all documents that name parts of the release.
type witnesses struct {
	all        []k8slayout.Witness
	read       map[string]digest.Digest // digests of the documents, as they were read
	provenance k8slayout.Witness        // zero if it is unsigned
}

// readWitnesses reads the other documents that name parts of the release. An
// unreadable document is a finding, and the others are still read.
func (u unsealed) readWitnesses(ctx context.Context, sbom signedSBOM) (w witnesses, f facts) {
	w.all = []k8slayout.Witness{k8slayout.Layout(), sbom.Witness}
	w.read = map[string]digest.Digest{k8slayout.ReleaseSBOM: sbom.digests.SHA256}
	for _, name := range []string{k8slayout.SHA256Sums, k8slayout.SHA512Sums, k8slayout.Provenance, k8slayout.ImageProvenance} {
		raw, err := store.Read(ctx, u.Files, name, maxDocument)
		if errors.Is(err, store.ErrNotFound) {
			continue // reported as missing, if the layout names it
		}
		var witness k8slayout.Witness
		if err == nil {
			read := digest.Of(digest.SHA256, raw)
			f.addInputs(verdict.Input{Name: name, Place: u.Files.URI(), Digest: read})
			if name != k8slayout.ImageProvenance { // which no document names, so it is not hashed again
				w.read[name] = read
			}
			switch name {
			case k8slayout.Provenance:
				witness, err = u.readProvenance(raw, &f)
			case k8slayout.ImageProvenance:
				if _, err = u.signedProvenance(name, raw, &f); err == nil {
					continue // it names no file
				}
			default:
				witness, err = k8slayout.ParseSums(name, raw, u.Version)
			}
		}
		if err == nil {
			_, err = k8slayout.Of(witness)
		}
		if err != nil {
			f.fail(name, about(name, err))
			continue
		}
		if w.all = append(w.all, witness); witness.Signed() {
			w.provenance = witness
		}
	}
	if !u.List.IsZero() {
		w.all = append(w.all, u.List.Witness())
	}
	return w, f
}

// describe prints a document's name, how many files it names, and where it
// comes from.
func describe(w k8slayout.Witness) string {
	basis := "unsigned"
	switch {
	case w.Independent():
		basis = "derived from the source"
	case w.Signed():
		basis = "signed"
	case w.Name() == k8slayout.Layout().Name():
		basis = "part of every release"
	}
	return fmt.Sprintf("%s (%d, %s)", w.Name(), w.Len(), basis)
}
