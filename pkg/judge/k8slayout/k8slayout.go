// Package k8slayout works out what a Kubernetes release should consist of,
// although no signed list of it exists, and compares that with what was found.
//
// Kubernetes publishes no manifest. Several documents, each made for its own
// purpose, name the files of a release: SHA256SUMS and SHA512SUMS, the SBOM of
// the release, the provenance. Each is a [Witness]: it names files and gives
// digests for most of them. All of those come from the build that they
// describe; a [List] is read from the source instead, at a commit that it
// records, and names files without digests.
//
//	set, err := k8slayout.Of(sums, sbom, provenance, list)
//	for _, name := range set.Names() { … }
//	findings := set.Compare(have)
//
// No witness is trusted alone; each is checked against the others. The SBOM is
// signed, and so may be the provenance: [Witness.Gives] and [Witness.Built] say
// which files and images a signature covers.
//
//   - A name that any witness lists must be found: MISSING.
//   - The bytes under a name must match every witness that gives a digest.
//     Bytes that match none of them are TAMPERED, or NAME_SWAP if they are the
//     bytes of another name. Bytes that match some witnesses and not others are
//     EVIDENCE_CONFLICT: one of the witnesses is wrong, and the finding lists
//     both sides.
//   - A witness that should list all files of a kind must list every such file
//     that another witness lists, else EVIDENCE_CONFLICT.
//   - Each file has hash sidecars. A sidecar that was not found is MISSING; one
//     with another digest than its file is EVIDENCE_CONFLICT.
//   - A file that no witness lists and that is not part of the layout is EXTRA.
//
// The caller must report two limits. Somebody who can change every witness and
// every file at once is not detected. And where no witness is independent of
// the build ([Set.Independent]), a file that the build itself left out, such as
// a platform that was never built, is not detected as missing.
//
// The package knows only the layout of Kubernetes releases ([KindOf]). It does
// no I/O and verifies no signatures: see pkg/gate.
//
// Other projects should not import this package: it changes without notice.
package k8slayout

import (
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Witness is one document that says what a release should consist of. The zero
// Witness names nothing.
type Witness struct {
	name        string
	independent bool
	signed      bool
	covers      func(name string) bool // reports the files that it should list; nil if none
	claims      map[string]digest.Set
	images      map[Image]Built
	source      digest.Set // the SBOM of the source, as the SBOM of the release references it
}

// Name is the name of the witness: its file name, or the name of a list.
func (w Witness) Name() string { return w.name }

// Independent reports whether the witness was made without the build.
func (w Witness) Independent() bool { return w.independent }

// Signed reports whether the caller verified the signature of the document.
func (w Witness) Signed() bool { return w.signed }

// BySigner is the witness, for a document whose signature the caller verified.
func (w Witness) BySigner() Witness {
	w.signed = true
	return w
}

// Len is the number of files that it names.
func (w Witness) Len() int { return len(w.claims) }

// claim records a file that the witness names. Naming a file twice with
// different digests is an error.
func (w *Witness) claim(name string, set digest.Set) error {
	if reason := badName(name); reason != "" {
		return verdict.Refuse(verdict.Path, w.name, "lists the file %.200q: %s", name, reason)
	}
	if before, twice := w.claims[name]; twice && before != set {
		return verdict.Refuse(verdict.Conflict, w.name, "gives two different digests for %s", name)
	}
	if w.claims == nil {
		w.claims = map[string]digest.Set{}
	}
	w.claims[name] = set
	return nil
}

// badName says why a name cannot be that of a release file; "" if it can.
func badName(name string) string {
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("/._+@~-", c) >= 0:
		default:
			return "the name has a character that is not allowed in a release"
		}
	}
	for segment := range strings.SplitSeq(name, "/") {
		if segment == "" || strings.HasSuffix(segment, ".") {
			return "the name has an empty path element, or one that ends with a dot"
		}
	}
	return ""
}

// Set is what a release should consist of, according to all witnesses. The zero
// Set expects nothing; do not compare with it.
type Set struct{ witnesses []Witness }

// Of combines witnesses. A witness that names no files is refused, because it
// would count as one that agrees.
func Of(witnesses ...Witness) (Set, error) {
	if len(witnesses) == 0 {
		return Set{}, verdict.Refuse(verdict.EvidenceMissing, "expected set", "no document says which files belong to the release")
	}
	for _, w := range witnesses {
		if len(w.claims) == 0 {
			return Set{}, verdict.Refuse(verdict.EvidenceMissing, w.name, "lists no file of the release")
		}
	}
	return Set{witnesses: witnesses}, nil
}

// Witnesses returns the witnesses in the order in which they were given.
func (s Set) Witnesses() []Witness { return s.witnesses }

// Independent reports whether at least one witness was made without the build.
func (s Set) Independent() bool {
	return slices.ContainsFunc(s.witnesses, Witness.Independent)
}

// Names lists the files that at least one witness names, sorted.
func (s Set) Names() []string {
	all := map[string]bool{}
	for _, w := range s.witnesses {
		for name := range w.claims {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// By lists the witnesses that name a file.
func (s Set) By(name string) (by []string) {
	for _, w := range s.witnesses {
		if _, names := w.claims[name]; names {
			by = append(by, w.name)
		}
	}
	return by
}
