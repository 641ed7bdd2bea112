package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/expected"
	"github.com/waybill-release/waybill/pkg/slsa"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// witnesses are all sources that name parts of the release.
type witnesses struct {
	all  []expected.Witness
	read map[string]digest.Digest // documents, as they were read
}

// readWitnesses reads everything else that names parts of the release. A document
// that can not be read is a difference, and the others are read all the same.
func (u unsealed) readWitnesses(ctx context.Context, sbom signedSBOM) (w witnesses, f facts) {
	w.all = []expected.Witness{expected.Layout(), sbom.Witness}
	w.read = map[string]digest.Digest{expected.ReleaseSBOM: sbom.digests.SHA256}
	for _, name := range []string{expected.SHA256Sums, expected.SHA512Sums, expected.Provenance} {
		raw, err := store.Read(ctx, u.Files, name, maxDocument)
		if errors.Is(err, store.ErrNotFound) {
			continue // the layout names it, so it is missing
		}
		var witness expected.Witness
		if err == nil {
			w.read[name] = digest.Of(digest.SHA256, raw)
			f.read(verdict.Input{Name: name, Place: u.Files.URI(), Digest: w.read[name]})
			if name == expected.Provenance {
				witness, err = readUnsignedProvenance(raw, u.Version, &f)
			} else {
				witness, err = expected.ParseSums(name, raw, u.Version)
			}
		}
		if err == nil {
			_, err = expected.Of(witness)
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

// readUnsignedProvenance reads provenance that is unsigned. It shows that there
// is provenance, and of the requirements of SLSA no more than that: the verdict
// has them all.
func readUnsignedProvenance(raw []byte, v version.Version, f *facts) (expected.Witness, error) {
	statement, err := intoto.ParseOpen(raw)
	if err != nil {
		return expected.Witness{}, err
	}
	claim, err := provenance.Read(statement)
	if err != nil {
		return expected.Witness{}, err
	}
	for _, note := range provenance.LintPredicate(claim) {
		f.note("%s says of itself: %s", expected.Provenance, note)
	}
	rateUnsigned(statement, f)
	return expected.ReadProvenance(expected.Provenance, statement, v)
}

// rateUnsigned answers the requirements of SLSA for the first subject: unsigned
// provenance shows the same of all of them.
func rateUnsigned(statement intoto.Statement, f *facts) {
	const name = expected.Provenance
	for _, s := range statement.Subjects() {
		if s.Digests.IsZero() {
			continue
		}
		report, err := slsa.Trust{}.Judge(slsa.Question{Name: s.Name, Bytes: s.Digests, Unsigned: statement})
		if err != nil {
			f.note("%s: no level can be read from it: %v", name, err)
			return
		}
		f.levels = append(f.levels, report.On(slsa.Build))
		for _, track := range []slsa.Track{slsa.Build, slsa.V01} {
			on := report.On(track)
			f.note("%s is unsigned: no more than level %d of SLSA %s is shown of any file; level %d fails for %s", name, on.Level, track, on.Level+1, strings.Join(on.Next, ", "))
		}
		return
	}
}

// describe names a witness, how many files it names, and what it rests on.
func describe(w expected.Witness) string {
	basis := "unsigned"
	switch {
	case w.Independent():
		basis = "read in the source"
	case w.Name() == expected.ReleaseSBOM:
		basis = "signed"
	case w.Name() == expected.Layout().Name():
		basis = "what every release has"
	}
	return fmt.Sprintf("%s (%d, %s)", w.Name(), w.Len(), basis)
}
