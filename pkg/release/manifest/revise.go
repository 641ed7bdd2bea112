package manifest

import (
	"fmt"
	"slices"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Revise makes the next revision of a manifest whose bundle has the given
// digest. It lists the same artifacts. The caller may change their evidence;
// [Manifest.Follows] checks whether the result still is a revision.
func (m Manifest) Revise(bundle digest.Digest, change string) Manifest {
	m.Artifacts = slices.Clone(m.Artifacts)
	for _, p := range m.Pages {
		m.Former = append(m.Former[:len(m.Former):len(m.Former)], p.Name)
	}
	m.Pages = nil
	m.Revision, m.Supersedes, m.Change = m.Revision+1, bundle, change
	return m
}

// Follows refuses a manifest that is not a later revision of before, whose
// bundle has the given digest. A revision is about the same release and lists
// the same names with the same bytes: a published name never changes its bytes.
// A withdrawal is final. If revisions between the two were not seen, the digest
// in Supersedes cannot be checked.
func (m Manifest) Follows(before Manifest, bundle digest.Digest) error {
	refuse := func(code verdict.Code, message, want, got string) error {
		return &verdict.Error{Finding: verdict.Find(code, "manifest", "%s", message).Differ(want, got)}
	}
	switch {
	case m.Name != before.Name || m.Version != before.Version:
		return refuse(verdict.Version, "the manifest is for another release", before.title(), m.title())
	case m.Revision < before.Revision:
		return refuse(verdict.Stale, "there already is a later revision", fmt.Sprint(before.Revision), fmt.Sprint(m.Revision))
	case m.Revision == before.Revision:
		return refuse(verdict.Equivocation, fmt.Sprintf("two different manifests claim revision %d", m.Revision), bundle.String(), "another bundle")
	case m.Revision == before.Revision+1 && !m.Supersedes.Equal(bundle):
		return refuse(verdict.Equivocation, "the manifest supersedes another manifest than the current one", bundle.String(), m.Supersedes.String())
	case before.Withdrawn != nil && m.Withdrawn == nil:
		return verdict.Refuse(verdict.Withdrawn, "manifest", "revision %d withdrew the release, and no later one brings it back: %s", before.Revision, before.Withdrawn.Reason)
	case m.Source != before.Source || !m.Config.Equal(before.Config) || !sameLock(m.Lock, before.Lock):
		return refuse(verdict.NotBound, "the manifest names another source revision or configuration", before.Source.Commit, m.Source.Commit)
	case m.FilesURI != before.FilesURI || m.ImagesURI != before.ImagesURI:
		return refuse(verdict.PlaceOther, "the manifest is for another place", before.FilesURI+" "+before.ImagesURI, m.FilesURI+" "+m.ImagesURI)
	}
	return m.listsAgain(before)
}

func (m Manifest) title() string { return m.Name + " " + m.Version.String() }

// sameLock also holds for two releases without a lock, whose zero digests equal
// nothing.
func sameLock(a, b digest.Digest) bool { return a.IsZero() && b.IsZero() || a.Equal(b) }

// listsAgain requires the same names with the same bytes in both revisions.
func (m Manifest) listsAgain(before Manifest) error {
	for _, a := range m.Artifacts {
		if _, listed := before.Find(a.Name); !listed {
			return verdict.Refuse(verdict.PlanExtra, a.Name, "revision %d did not list this; new artifacts need a new version, not a revision", before.Revision)
		}
	}
	for _, b := range before.Artifacts {
		a, listed := m.Find(b.Name)
		switch {
		case !listed:
			return verdict.Refuse(verdict.PlanMissing, b.Name, "revision %d lists this; a revision cannot remove artifacts, only withdraw the release", before.Revision)
		case !a.Digests.Equal(b.Digests) || a.Size != b.Size:
			return &verdict.Error{Finding: verdict.Find(verdict.Tampered, a.Name, "revision %d lists other bytes under this name; the bytes of a name never change", before.Revision).
				Differ(b.Digests.SHA256.String(), a.Digests.SHA256.String())}
		case a.Class != b.Class || a.Platform != b.Platform || a.Step != b.Step:
			return verdict.Refuse(verdict.NotBound, a.Name, "revision %d describes this differently: %s", before.Revision, b.Class)
		}
	}
	return nil
}

// Rebound returns the names of the artifacts whose evidence differs in another
// revision.
func (m Manifest) Rebound(other Manifest) (names []string) {
	for _, a := range m.Artifacts {
		b, _ := other.Find(a.Name)
		if a.Provenance != b.Provenance || a.SBOM != b.SBOM || a.Signature != b.Signature {
			names = append(names, a.Name)
		}
	}
	return names
}
