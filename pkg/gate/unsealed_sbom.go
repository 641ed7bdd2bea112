package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// signedSBOM is the SBOM of the release, the only signed document that binds
// bytes to a name and a version. Without it, any file or image that the project
// ever signed would pass for any other, so nothing is decided.
type signedSBOM struct {
	k8slayout.Witness
	digests digest.Set
	holds   bool // its signature is valid, and it is for the version
	// provenance is signed, too. It may name files that the SBOM does not; zero
	// if it is unsigned.
	provenance k8slayout.Witness
}

// gives reports which signed document gives a digest for a file that can be
// compared with bytes, and whether they are equal.
func (s signedSBOM) gives(name string, bytes digest.Set) (by k8slayout.Witness, gives, same bool) {
	if gives, same = s.Gives(name, bytes); gives || s.provenance.Len() == 0 {
		return s.Witness, gives, same
	}
	gives, same = s.provenance.Gives(name, bytes)
	return s.provenance, gives, same
}

// readSBOM reads the SBOM of the release and verifies its signature before
// anything else is read. It is an item of these facts if it is invalid, or if
// the files of the place, one of which it is, are out of scope.
func (u unsealed) readSBOM(ctx context.Context) (s signedSBOM, f facts) {
	const name = k8slayout.ReleaseSBOM
	raw, err := store.Read(ctx, u.Files, name, maxDocument)
	if errors.Is(err, store.ErrNotFound) {
		err = verdict.Refuse(verdict.Missing, name, "the SBOM is not in the place, and no other signed document says which files and images belong to %s", u.Version).
			Advise("check that the version exists, then fetch the release with its SBOM from where the project publishes it")
	}
	if err != nil {
		f.counted = []counted{{name: name, asked: true}}
		f.fail(name, about(name, err))
		return s, f
	}
	s.digests = digest.SetOf(raw)
	f.addInputs(verdict.Input{Name: name, Place: u.Files.URI(), Digest: s.digests.SHA256})
	sbom := u.answered(u.fileItem(ctx, name, s.digests))
	if sbom.isProven() {
		if s.Witness, err = parseReleaseSBOM(raw, u.Version); err != nil {
			sbom.differ(about(name, err))
		}
		s.Witness = s.BySigner()
		s.holds = err == nil
	}
	if !s.holds || u.Options.Scope.Only == policy.Images || len(u.Options.Scope.Given) > 0 {
		f.items = []item{sbom}
	}
	return s, f
}

// file is the SBOM as a hashed file, if it was found.
func (s signedSBOM) file() hashedFiles {
	h := hashedFiles{digests: map[string]digest.Set{}}
	if !s.digests.IsZero() {
		h.digests[k8slayout.ReleaseSBOM] = s.digests
	}
	return h
}

func parseReleaseSBOM(raw []byte, v version.Version) (k8slayout.Witness, error) {
	doc, err := spdx.ParseTagValue(raw)
	if err != nil {
		return k8slayout.Witness{}, err
	}
	w, err := k8slayout.ReadSBOM(k8slayout.ReleaseSBOM, doc, v)
	if err == nil {
		_, err = k8slayout.Of(w)
	}
	return w, err
}

// bindFile compares a file with valid signature with the SBOM. The signature
// alone would cover the same bytes under any name and version.
func (u unsealed) bindFile(ctx context.Context, sbom signedSBOM, name string, bytes digest.Set) error {
	by, gives, same := sbom.gives(name, bytes)
	switch {
	case gives && same, name == k8slayout.ReleaseSBOM: // it names its version itself
		return nil
	case gives:
		return &verdict.Error{Finding: verdict.Find(verdict.Tampered, name, "the bytes are not those that the signed %s gives", by.Name()).
			Differ(by.Bytes(name).SHA256.String(), bytes.SHA256.String())}
	case name == k8slayout.SourceSBOM:
		return u.bindSourceSBOM(ctx, bytes.SHA256)
	}
	return verdict.Refuse(verdict.VersionUnbound, name, "the file is signed, but not bound to its version: %s does not describe it, and no other signed document says that it belongs to %s", k8slayout.ReleaseSBOM, u.Version)
}

// bindSourceSBOM reads the version that the SBOM of the source names: the
// digest by which the SBOM of the release refers to it proves nothing.
func (u unsealed) bindSourceSBOM(ctx context.Context, want digest.Digest) error {
	const name = k8slayout.SourceSBOM
	raw, err := store.Read(ctx, u.Files, name, maxDocument)
	if err != nil {
		return err
	}
	if got := digest.Of(digest.SHA256, raw); !got.Equal(want) {
		return changed(name, want, got)
	}
	var namespaces []string
	for line := range strings.Lines(string(raw)) {
		if value, is := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "DocumentNamespace: "); is {
			namespaces = append(namespaces, value)
		}
	}
	of := k8slayout.SourceNamespace(u.Version)
	if len(namespaces) == 1 && namespaces[0] == of {
		return nil
	}
	return &verdict.Error{Finding: verdict.Find(verdict.Version, name, "the SBOM is for another source").Differ(of, clip(strings.Join(namespaces, ", ")))}
}

// changed refuses a file that had other bytes when it was read again.
func changed(name string, before, after digest.Digest) error {
	return &verdict.Error{Finding: verdict.Find(verdict.Tampered, name, "the file changed while it was read").Differ(before.String(), after.String())}
}

// checkTagFiles compares the unsigned files that contain an image tag with the
// only tag that they can contain.
func (u unsealed) checkTagFiles(sbom signedSBOM, asked k8slayout.Set, files hashedFiles, f *facts) {
	for _, name := range asked.Names() {
		sum := files.digests[name].SHA256
		tag := u.Version.String()
		want := digest.Of(digest.SHA256, []byte(tag))
		switch {
		case !strings.HasSuffix(name, k8slayout.TagSuffix) || sum.IsZero():
		case !sbom.Tagged(name):
			f.follow(name, policy.Require, verdict.Find(verdict.VersionUnbound, name, "%s lists no image of this name", sbom.Name()))
		case !sum.Equal(want) && !sum.Equal(digest.Of(digest.SHA256, []byte(tag+"\n"))):
			f.follow(name, policy.Require, verdict.Find(verdict.Tampered, name, "the file does not contain %s", tag).Differ(want.String(), sum.String()))
		}
	}
}

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
