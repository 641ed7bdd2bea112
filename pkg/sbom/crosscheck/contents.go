package crosscheck

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/spdx"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// Found is what reading an artifact again came to.
type Found struct {
	// Digests are those of the bytes as they were read.
	Digests digest.Set
	// Findings are where its contents are not what the document lists.
	Findings []verdict.Finding
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
func Omitted(doc spdx.Document) (notes []string) {
	for _, note := range doc.Unknown() {
		if strings.HasPrefix(note, NotExamined) || strings.HasPrefix(note, SeenOnly) && !strings.HasPrefix(note, SeenOnly+"version control: ") {
			notes = append(notes, note)
		}
	}
	return notes
}

// Files demands that a document lists exactly the files that there are, each
// with its digest. The images of several platforms have files of one name.
func Files(a Artifact, files []spdx.File) (all []verdict.Finding) {
	listed, there := byName(a.Document.Files()), byName(files)
	for _, name := range slices.Sorted(maps.Keys(there)) {
		switch got, want := listed[name], there[name]; {
		case got == nil:
			all = append(all, verdict.Find(verdict.SBOMIncomplete, a.Name, "its SBOM does not list the file %.200q", name))
		case !slices.Equal(got, want):
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "its SBOM has another digest of the file %.200q", name).
				Differ(strings.Join(want, " "), cmp.Or(strings.Join(got, " "), "no SHA-256")))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if there[name] == nil {
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "its SBOM lists the file %.200q, which is not there", name))
		}
	}
	return all
}

// byName are the digests of files by their names.
func byName(files []spdx.File) map[string][]string {
	all := make(map[string][]string, len(files))
	for _, f := range files {
		all[f.Name] = append(all[f.Name], f.Digests.SHA256.String())
	}
	for _, list := range all {
		slices.Sort(list)
	}
	return all
}
