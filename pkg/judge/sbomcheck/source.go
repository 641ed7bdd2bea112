package sbomcheck

import (
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// SourceName is the name of the source in its document.
const SourceName = "source"

// Source requires that a document describes the source of a release and that
// the document of the release, unless it is zero, says that the release was
// made from it, by namespace and digest. a is that document under its file
// name, with the version of the release.
func Source(a Artifact, whole spdx.Document) (all []verdict.Finding) {
	name := a.Document.DescribedVersion()
	if about, _ := a.Document.Describes(); about != SourceName || name != a.Version {
		all = append(all, verdict.Find(verdict.SBOMSubject, a.Name, "the SBOM of the source describes another source").
			Differ(SourceName+" "+a.Version, about+" "+name))
	}
	if whole.IsZero() {
		return all
	}
	id, sum := reference(whole, a.namespace())
	switch {
	case !sum.Equal(a.DocumentDigest):
		all = append(all, verdict.Find(verdict.Conflict, a.Name, "the SBOM of the release does not reference the SBOM of the source by this digest").
			Differ(a.DocumentDigest.String(), orNone(sum)))
	case !madeFrom(whole, id):
		all = append(all, verdict.Find(verdict.Conflict, a.Name, "the SBOM of the release does not say that the release was made from this source"))
	}
	return all
}

// reference returns the digest that a document gives for another one; zero if
// it gives none, or two.
func reference(doc spdx.Document, namespace string) (id string, sum digest.Digest) {
	for _, e := range doc.ExternalRefs() {
		switch {
		case e.Namespace != namespace:
		case id != "":
			return "", digest.Digest{}
		default:
			id, sum = e.ID, e.SHA256
		}
	}
	return id, sum
}

// madeFrom reports whether a subject of the document was made from an element
// of another document.
func madeFrom(doc spdx.Document, id string) bool {
	relationships := doc.Relationships()
	described := map[string]bool{}
	for _, r := range relationships {
		described[r.To] = described[r.To] || r.Type == spdx.Describes
	}
	return slices.ContainsFunc(relationships, func(r spdx.Relationship) bool {
		return r.Type == spdx.GeneratedFrom && described[r.From] && strings.HasPrefix(r.To, id+":")
	})
}

// Known requires that the modules of a document have the known checksums. Other
// modules are ignored: a source contains modules that no step of the release
// builds.
func Known(a Artifact, sums map[string]string) (all []verdict.Finding) {
	for _, p := range goPackages(a.Document) {
		want, known := sums[p.Name+" "+p.Version]
		if known && p.Sum != "" && want != p.Sum {
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "go.sum and SBOM have different checksums of %.200q", p.Name+" "+p.Version).Differ(want, p.Sum))
		}
	}
	return all
}
