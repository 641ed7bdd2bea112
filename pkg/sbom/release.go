package sbom

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Release describes the release as a whole: every artifact by name and digest,
// linked to its own document, and to that of their source, which is zero if
// there is none. A release has no digest of its own, so the described package
// has no checksum.
func Release(in Input, entries []Entry, source Entry) (Made, error) {
	sorted := slices.SortedFunc(slices.Values(entries), func(x, y Entry) int {
		return strings.Compare(x.Artifact, y.Artifact)
	})
	var roll strings.Builder
	for i, e := range sorted {
		if e.Artifact == "" || e.Digests.SHA256.IsZero() || (i > 0 && e.Artifact == sorted[i-1].Artifact) {
			return Made{}, verdict.Refuse(verdict.SBOMSubject, e.Artifact, "entry %d of the release: missing name or digest, or duplicate name", i)
		}
		fmt.Fprintf(&roll, "%s %s %s\n", e.Artifact, e.Digests.SHA256, e.SBOMDigest.SHA256)
	}
	if len(sorted) == 0 {
		return Made{}, verdict.Refuse(verdict.SBOMSubject, in.Name, "a release without artifacts")
	}
	fmt.Fprintf(&roll, "from %s\n", source.SBOMDigest.SHA256)
	// The list of all entries replaces the bytes in the namespace, so two
	// different releases never share one.
	identity := digest.Set{SHA256: digest.Of(digest.SHA256, []byte(roll.String()))}
	if err := in.check(in.Name); err != nil {
		return Made{}, err
	}
	b := in.draft(in.Name, identity)
	b.subject().Digests, b.subject().FileName = digest.Set{}, ""
	b.subject().Purpose = spdx.Install
	b.subject().Comment = fmt.Sprintf("The release %s %s of %d artifacts.", in.Name, in.Version, len(sorted))
	from := b.linked(source)
	if from != "" {
		b.relate(artifactID, spdx.GeneratedFrom, from, "described in "+source.SBOM)
	}
	for _, e := range sorted {
		id := b.entry(e)
		b.relate(artifactID, spdx.Contains, id, "")
		if from != "" {
			b.relate(id, spdx.GeneratedFrom, from, "")
		}
	}
	return b.made(), nil
}
