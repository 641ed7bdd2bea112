package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// witnesses are all documents that name parts of the release.
type witnesses struct {
	all  []k8slayout.Witness
	read map[string]digest.Digest // digests of the documents, as they were read
}

// readWitnesses reads the other documents that name parts of the release. An
// unreadable document is a finding, and the others are still read.
func (u unsealed) readWitnesses(ctx context.Context, sbom signedSBOM) (w witnesses, f facts) {
	w.all = []k8slayout.Witness{k8slayout.Layout(), sbom.Witness}
	w.read = map[string]digest.Digest{k8slayout.ReleaseSBOM: sbom.digests.SHA256}
	for _, name := range []string{k8slayout.SHA256Sums, k8slayout.SHA512Sums, k8slayout.Provenance} {
		raw, err := store.Read(ctx, u.Files, name, maxDocument)
		if errors.Is(err, store.ErrNotFound) {
			continue // reported as missing, because the layout names it
		}
		var witness k8slayout.Witness
		if err == nil {
			w.read[name] = digest.Of(digest.SHA256, raw)
			f.addInputs(verdict.Input{Name: name, Place: u.Files.URI(), Digest: w.read[name]})
			if name == k8slayout.Provenance {
				witness, err = readUnsignedProvenance(raw, u.Version, &f)
			} else {
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
		w.all = append(w.all, witness)
	}
	if !u.List.IsZero() {
		w.all = append(w.all, u.List.Witness())
	}
	return w, f
}

// readUnsignedProvenance reads unsigned provenance. It only shows that
// provenance exists; the verdict lists all requirements of SLSA.
func readUnsignedProvenance(raw []byte, v version.Version, f *facts) (k8slayout.Witness, error) {
	statement, err := intoto.ParseOpen(raw)
	if err != nil {
		return k8slayout.Witness{}, err
	}
	claim, err := provenance.Read(statement)
	if err != nil {
		return k8slayout.Witness{}, err
	}
	for _, note := range provenance.LintPredicate(claim) {
		f.note("lint of %s: %s", k8slayout.Provenance, note)
	}
	rateUnsigned(statement, f)
	return k8slayout.ReadProvenance(k8slayout.Provenance, statement, v)
}

// rateUnsigned reports the SLSA levels of the first subject: unsigned
// provenance shows the same for all of them.
func rateUnsigned(statement intoto.Statement, f *facts) {
	const name = k8slayout.Provenance
	for _, s := range statement.Subjects() {
		if s.Digests.IsZero() {
			continue
		}
		report, err := slsa.Trust{}.Judge(slsa.Question{Name: s.Name, Bytes: s.Digests, Unsigned: statement})
		if err != nil {
			f.note("%s: shows no level: %v", name, err)
			return
		}
		for _, track := range tracks() {
			on := report.On(track)
			var joined verdict.Levels
			joined.Join(on)
			f.levels = append(f.levels, joined)
			if track == slsa.Source {
				continue
			}
			f.note("%s is unsigned and shows level %d of SLSA %s at most; level %d fails for %s", name, on.Level, track, on.Level+1, strings.Join(on.Next, ", "))
		}
		return
	}
}

// describe prints a document's name, how many files it names, and where it
// comes from.
func describe(w k8slayout.Witness) string {
	basis := "unsigned"
	switch {
	case w.Independent():
		basis = "derived from the source"
	case w.Name() == k8slayout.ReleaseSBOM:
		basis = "signed"
	case w.Name() == k8slayout.Layout().Name():
		basis = "part of every release"
	}
	return fmt.Sprintf("%s (%d, %s)", w.Name(), w.Len(), basis)
}
