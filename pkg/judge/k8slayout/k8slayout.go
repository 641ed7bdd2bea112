// Package k8slayout works out what a release should consist of when nobody
// signed a list of it, and compares that with what is there.
//
// Kubernetes publishes no manifest. What belongs to one of its releases is said
// by several documents, each for a reason of its own: SHA256SUMS and
// SHA512SUMS, the SBOM of the release, the provenance. Each is a [Witness]: it
// names files, and for most of them a digest. All of those come from the build
// that they speak of; a [List] is read from the source instead, at a commit
// that it names, and knows names only.
//
//	set, err := k8slayout.Of(sums, sbom, provenance, list)
//	for _, name := range set.Names() { … }
//	findings := set.Compare(have)
//
// No witness is believed here, and each is held to what the others say. The SBOM
// is signed: what its signature holds of is asked of it by name, with
// [Witness.Gives] and [Witness.Built].
//
//   - A name that any witness gives must be there: MISSING.
//   - The bytes under a name must be those of every witness that gives a
//     digest. Bytes that none of them gives are TAMPERED, or NAME_SWAP where
//     they are another name's. Bytes that some give and others do not are
//     EVIDENCE_CONFLICT: one of the witnesses lies, and the finding says who
//     stands where.
//   - A witness that is written over all files of a kind must name every such
//     file that another names, else EVIDENCE_CONFLICT.
//   - Beside each file lie its hash sidecars. One that is not there is MISSING,
//     one that says another digest than the bytes have is EVIDENCE_CONFLICT.
//   - What no witness names and the layout does not know is EXTRA.
//
// What this can not do, the caller must say: somebody who can change every
// witness and every file at once is not found out here. Where no witness is
// independent of the build ([Set.Independent]), a file that the build itself
// left out, as a platform that was never built, is missed by nobody.
//
// The package knows the layout of Kubernetes' releases ([KindOf]) and no other.
// It reads no place, verifies no signature and believes no digest: see pkg/gate.
package k8slayout

import (
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Witness is one source of what a release should consist of. The zero Witness
// says nothing.
type Witness struct {
	name        string
	independent bool
	covers      func(name string) bool // of what it must name every file
	claims      map[string]digest.Set
	images      map[Image]Built
	source      digest.Set // the SBOM of the source, as that of the release refers to it
}

// Name is what the witness is called: the name of its file, or where a list
// was read.
func (w Witness) Name() string { return w.name }

// Independent reports whether the witness was made without the build.
func (w Witness) Independent() bool { return w.independent }

// Len is how many files it names.
func (w Witness) Len() int { return len(w.claims) }

// claim records that the witness names a file. Who names one twice says two
// things.
func (w *Witness) claim(name string, set digest.Set) error {
	if reason := badName(name); reason != "" {
		return verdict.Refuse(verdict.Path, w.name, "it names %.200q: %s", name, reason)
	}
	if before, twice := w.claims[name]; twice && before != set {
		return verdict.Refuse(verdict.Conflict, w.name, "it gives two digests for %s", name)
	}
	if w.claims == nil {
		w.claims = map[string]digest.Set{}
	}
	w.claims[name] = set
	return nil
}

// badName says why a name can be no file of a release, "" if it can.
func badName(name string) string {
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("/._+@~-", c) >= 0:
		default:
			return "it has a character that no name of a release has"
		}
	}
	for segment := range strings.SplitSeq(name, "/") {
		if segment == "" || strings.HasSuffix(segment, ".") {
			return "it leads out of the release, or has two readings"
		}
	}
	return ""
}

// Set is what a release should consist of, by all witnesses together. The zero
// Set expects nothing, and is never compared.
type Set struct{ witnesses []Witness }

// Of brings witnesses together. One that names nothing is refused: it would
// pass for one that agrees.
func Of(witnesses ...Witness) (Set, error) {
	if len(witnesses) == 0 {
		return Set{}, verdict.Refuse(verdict.EvidenceMissing, "expected set", "nobody says what belongs to the release")
	}
	for _, w := range witnesses {
		if len(w.claims) == 0 {
			return Set{}, verdict.Refuse(verdict.EvidenceMissing, w.name, "it names no file of the release")
		}
	}
	return Set{witnesses: witnesses}, nil
}

// Witnesses are those who speak, in the order in which they were given.
func (s Set) Witnesses() []Witness { return s.witnesses }

// Independent reports whether a witness speaks that was made without the build.
func (s Set) Independent() bool {
	return slices.ContainsFunc(s.witnesses, Witness.Independent)
}

// Names are the files that somebody names, sorted.
func (s Set) Names() []string {
	all := map[string]bool{}
	for _, w := range s.witnesses {
		for name := range w.claims {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// By names the witnesses that name a file.
func (s Set) By(name string) (by []string) {
	for _, w := range s.witnesses {
		if _, names := w.claims[name]; names {
			by = append(by, w.name)
		}
	}
	return by
}
