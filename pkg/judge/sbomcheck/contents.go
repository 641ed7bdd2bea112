package sbomcheck

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Found is the result of reading an artifact again.
type Found struct {
	// Digests are those of the bytes that were read.
	Digests digest.Set
	// Findings lists the differences between its contents and the document.
	Findings []verdict.Finding
	// Left lists the parts of the document that were not compared: see
	// [Foreign].
	Left []string
}

// Complete refuses an SBOM that says parts were not examined. Packages that
// were seen but not catalogued count too.
func Complete(a Artifact) []verdict.Finding {
	return slice.Map(Omitted(a.Document), func(note string) verdict.Finding { return verdict.Find(verdict.SBOMIncomplete, a.Name, "%.500q", note) })
}

// Omitted lists what a document says it leaves out.
func Omitted(doc spdx.Document) []string { return Unexamined(doc.Relationships()) }

// Unexamined is [Omitted] for relationships: what could not be examined, and
// what was seen but not catalogued. Files of the version control system do not
// count.
func Unexamined(relationships []spdx.Relationship) (notes []string) {
	for _, r := range relationships {
		if r.To == spdx.NoAssertion && (strings.HasPrefix(r.Comment, NotExamined) ||
			strings.HasPrefix(r.Comment, SeenOnly) && !strings.HasPrefix(r.Comment, SeenOnly+"version control: ")) {
			notes = append(notes, r.Comment)
		}
	}
	return notes
}

// Stated requires that a document lists every part that could not be examined:
// otherwise its reader would not notice the omission.
func Stated(a Artifact, found []spdx.Relationship) (all []verdict.Finding) {
	said := slice.Set(Omitted(a.Document), part)
	for _, note := range Unexamined(found) {
		if !said[part(note)] {
			all = append(all, verdict.Find(verdict.SBOMIncomplete, a.Name, "its SBOM does not list an omitted part: %.500q", note))
		}
	}
	return all
}

// part is the subject of a note, without the reason, which is worded freely.
func part(note string) string {
	if rest, found := strings.CutPrefix(note, NotExamined); found {
		name, _, _ := strings.Cut(rest, ": ")
		return NotExamined + name
	}
	return note
}

// Files requires that a document lists exactly the existing files, each with
// correct digests. Files of several platforms of an image can have the same
// name.
func Files(a Artifact, files []spdx.File) (all []verdict.Finding) {
	listed, there := byName(a.Document.Files()), byName(files)
	for _, name := range slices.Sorted(maps.Keys(there)) {
		switch got, want := listed[name], there[name]; {
		case got == nil:
			all = append(all, verdict.Find(verdict.SBOMIncomplete, a.Name, "its SBOM does not list the file %.200q", name))
		case !slices.EqualFunc(got, want, Same):
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "its SBOM has a wrong digest for the file %.200q", name).
				Differ(sumsOf(want...), sumsOf(got...)))
		}
	}
	return append(all, unlisted(a, listed, there, "its SBOM lists the file %.200q, which does not exist")...)
}

// byName sorts files by name, and those with the same name by digest.
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

// Same reports whether a file matches a document: it gives a SHA-256 or a
// SHA-512, and no checksum differs.
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

// sumsOf formats the checksums of files for people.
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
