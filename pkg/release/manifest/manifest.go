// Package manifest has the release manifest as a value: the closed list of
// everything that one release publishes, where it is published, and which
// evidence belongs to which artifact.
//
// A [Manifest] is parsed, not verified; pkg/judge/verify says who signed its
// statement. The wire form is specified under attestations/release-manifest/v1;
// this package has the only conversion between wire form and value.
//
//	m, err := manifest.ReadManifest(statement, nil)
//	for _, a := range m.Files() { … }
package manifest

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Artifact is one published file or image: a planned artifact with its digests.
type Artifact struct {
	plan.Artifact
	Digests digest.Set
	Size    int64
	// Provenance and SBOM name the artifacts that contain them. Signature does
	// so for files; for images it is the digest of the signature's bundle.
	Provenance string
	SBOM       string
	Signature  string
}

// Source names the revision that was built.
type Source struct {
	Repository, Ref, Commit, Tree string
}

// Differs says in what the source that provenance names differs from s: in
// commit, repository or ref. Provenance has the commit as its ref, where a
// commit was asked for.
func (s Source) Differs(name string, said provenance.Provenance) (found verdict.Finding, differs bool) {
	from := said.BuildDefinition.ExternalParameters.Config
	for _, part := range []struct {
		code            verdict.Code
		what, want, got string
	}{
		{verdict.SourceCommit, "commit", s.Commit, said.SourceCommit()},
		{verdict.SourceRepo, "repository", s.Repository, from.Repository},
		{verdict.SourceRef, "ref", cmp.Or(s.Ref, s.Commit), from.Ref},
	} {
		if part.want != part.got {
			return verdict.Find(part.code, name, "built from another %s than the manifest names", part.what).Differ(part.want, part.got), true
		}
	}
	return verdict.Finding{}, false
}

// Manifest is the closed list of one release.
type Manifest struct {
	Name       string
	Version    version.Version
	Revision   int
	Supersedes digest.Digest
	Change     string
	SealedOn   time.Time
	Expires    time.Time
	Source     Source
	Config     digest.Digest
	Lock       digest.Digest
	FilesURI   string
	ImagesURI  string
	Artifacts  []Artifact
	Runs       []Run
	Withdrawn  *Withdrawal
	// Pages are the files with the list, if the manifest was read from pages.
	Pages []Page
	// Former are the pages of superseded revisions, which may be beside those
	// of this revision.
	Former []string
}

// Withdrawal says that the release must no longer be used, why, and what to use
// instead.
type Withdrawal struct {
	Reason, Use string
}

// Find returns the artifact of a name.
func (m Manifest) Find(name string) (Artifact, bool) {
	i, ok := slices.BinarySearchFunc(m.Artifacts, name, func(a Artifact, n string) int { return strings.Compare(a.Name, n) })
	if !ok {
		return Artifact{}, false
	}
	return m.Artifacts[i], true
}

// Files are the artifacts of the file place.
func (m Manifest) Files() []Artifact {
	return m.filter(func(a Artifact) bool { return !a.IsImage() })
}

// Images are the artifacts of the registry, indexes and their platforms.
func (m Manifest) Images() []Artifact {
	return m.filter(func(a Artifact) bool { return a.IsImage() })
}

// Children are the platforms of an image index.
func (m Manifest) Children(index string) []Artifact {
	return m.filter(func(a Artifact) bool { return a.Class == plan.ImageChild && a.Of == index })
}

func (m Manifest) filter(keep func(Artifact) bool) []Artifact {
	n := 0
	for i := range m.Artifacts {
		if keep(m.Artifacts[i]) {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	out := make([]Artifact, 0, n)
	for _, a := range m.Artifacts {
		if keep(a) {
			out = append(out, a)
		}
	}
	return out
}

// Repositories are the image repositories of the release, sorted.
func (m Manifest) Repositories() []string {
	return slice.Unique(slice.Map(m.Images(), func(a Artifact) string { return a.Repository }))
}

// checkSidecars refuses a checksum file with another digest than the manifest:
// users who check with it would get another answer. Its contents follow from
// the digest, so it need not be read.
func (m *Manifest) checkSidecars() error {
	for _, a := range m.Artifacts {
		if a.Class != plan.Checksum {
			continue
		}
		algorithm := path.Ext(a.Name)
		of, listed := m.Find(strings.TrimSuffix(a.Name, algorithm))
		said, known := map[string]digest.Digest{".sha256": of.Digests.SHA256, ".sha512": of.Digests.SHA512}[algorithm]
		if !listed || !known || of.IsImage() {
			return verdict.Refuse(verdict.ManifestParse, a.Name, "the manifest lists no file for this checksum")
		}
		want := digest.Of(digest.SHA256, []byte(said.Hex()))
		if !a.Digests.SHA256.Equal(want) || a.Size != int64(len(said.Hex())) {
			return &verdict.Error{Finding: verdict.Find(verdict.ManifestParse, a.Name, "the checksum is not that of %s", of.Name).
				Differ(want.String(), a.Digests.SHA256.String())}
		}
	}
	return nil
}
