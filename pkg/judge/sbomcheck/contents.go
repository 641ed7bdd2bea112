package sbomcheck

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Found is what reading an artifact again came to.
type Found struct {
	// Digests are those of the bytes as they were read.
	Digests digest.Set
	// Findings are where its contents are not what the document lists.
	Findings []verdict.Finding
	// Left names what the document says and nobody compared: see [Foreign].
	Left []string
}

// Complete refuses what the document says was not examined. Packages that were
// seen and not catalogued are so too: somebody asked for all.
func Complete(a Artifact) (all []verdict.Finding) {
	for _, note := range Omitted(a.Document) {
		all = append(all, verdict.Find(verdict.SBOMIncomplete, a.Name, "%.500q", note))
	}
	return all
}

// Omitted lists what a document says that it leaves out.
func Omitted(doc spdx.Document) []string { return Unexamined(doc.Relationships()) }

// Unexamined is [Omitted] of relationships: what could not be examined, and
// what was seen and not catalogued. What version control keeps for itself is
// no part of anything.
func Unexamined(relationships []spdx.Relationship) (notes []string) {
	for _, r := range relationships {
		if r.To == spdx.NoAssertion && (strings.HasPrefix(r.Comment, NotExamined) ||
			strings.HasPrefix(r.Comment, SeenOnly) && !strings.HasPrefix(r.Comment, SeenOnly+"version control: ")) {
			notes = append(notes, r.Comment)
		}
	}
	return notes
}

// Stated demands that a document says of every part that could not be examined
// that it was not: what is left out silently is missed by nobody.
func Stated(a Artifact, found []spdx.Relationship) (all []verdict.Finding) {
	said := map[string]bool{}
	for _, note := range Omitted(a.Document) {
		said[part(note)] = true
	}
	for _, note := range Unexamined(found) {
		if !said[part(note)] {
			all = append(all, verdict.Find(verdict.SBOMIncomplete, a.Name, "its SBOM does not say that a part of it is left out: %.500q", note))
		}
	}
	return all
}

// part is what a note is about, without the reason, which is said in words.
func part(note string) string {
	if rest, found := strings.CutPrefix(note, NotExamined); found {
		name, _, _ := strings.Cut(rest, ": ")
		return NotExamined + name
	}
	return note
}

// Files demands that a document lists exactly the files that there are, each
// with the digests that it gives. The images of several platforms have files
// of one name.
func Files(a Artifact, files []spdx.File) (all []verdict.Finding) {
	listed, there := byName(a.Document.Files()), byName(files)
	for _, name := range slices.Sorted(maps.Keys(there)) {
		switch got, want := listed[name], there[name]; {
		case got == nil:
			all = append(all, verdict.Find(verdict.SBOMIncomplete, a.Name, "its SBOM does not list the file %.200q", name))
		case !slices.EqualFunc(got, want, Same):
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "its SBOM has another digest of the file %.200q", name).
				Differ(sumsOf(want...), sumsOf(got...)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if there[name] == nil {
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "its SBOM lists the file %.200q, which is not there", name))
		}
	}
	return all
}

// byName are files by their names, those of one name by digest.
func byName(files []spdx.File) map[string][]spdx.File {
	all := make(map[string][]spdx.File, len(files))
	for _, f := range files {
		all[f.Name] = append(all[f.Name], f)
	}
	for _, list := range all {
		slices.SortFunc(list, func(x, y spdx.File) int { return strings.Compare(x.Digests.SHA256.String(), y.Digests.SHA256.String()) })
	}
	return all
}

// Same reports whether a file is as a document says: it gives a SHA-256, or a
// SHA-512, and none of its checksums is another one than that of the bytes.
func Same(said, is spdx.File) bool {
	agree, differ := 0, false
	for _, pair := range [2][2]digest.Digest{{said.Digests.SHA256, is.Digests.SHA256}, {said.Digests.SHA512, is.Digests.SHA512}} {
		switch {
		case pair[0].IsZero():
		case pair[0].Equal(pair[1]):
			agree++
		default:
			differ = true
		}
	}
	if said.SHA1 != "" && is.SHA1 != "" && !strings.EqualFold(said.SHA1, is.SHA1) {
		differ = true
	}
	return agree > 0 && !differ
}

// sumsOf are the checksums of files, for people.
func sumsOf(files ...spdx.File) string {
	var list []string
	for _, f := range files {
		for _, sum := range []digest.Digest{f.Digests.SHA256, f.Digests.SHA512} {
			if !sum.IsZero() {
				list = append(list, sum.String())
			}
		}
		if f.SHA1 != "" {
			list = append(list, "sha1:"+f.SHA1)
		}
	}
	return cmp.Or(strings.Join(list, " "), "no SHA-256")
}
