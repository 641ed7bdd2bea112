package manifest

import (
	"fmt"
	"slices"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Revise makes the next revision of a manifest, whose bundle has the given
// digest. It lists what the one before lists; the caller may bind other
// evidence to it, and [Manifest.Follows] says whether that still is a revision.
func (m Manifest) Revise(bundle digest.Digest, change string) Manifest {
	m.Artifacts = slices.Clone(m.Artifacts)
	for _, p := range m.Pages {
		m.Former = append(m.Former[:len(m.Former):len(m.Former)], p.Name)
	}
	m.Pages = nil
	m.Revision, m.Supersedes, m.Change = m.Revision+1, bundle, change
	return m
}

// Follows refuses a manifest that is no later revision of the one before it,
// whose bundle has the given digest. A revision speaks of the same release, and
// lists the same names with the same bytes: a published name never changes its
// bytes. What was withdrawn stays so. Where revisions between the two were not
// seen, only the next one can be held against the digest that it names.
func (m Manifest) Follows(before Manifest, bundle digest.Digest) error {
	refuse := func(code verdict.Code, message, want, got string) error {
		return &verdict.Error{Finding: verdict.Find(code, "manifest", "%s", message).Differ(want, got)}
	}
	switch {
	case m.Name != before.Name || m.Version != before.Version:
		return refuse(verdict.Version, "it is of another release", before.title(), m.title())
	case m.Revision < before.Revision:
		return refuse(verdict.Stale, "a later revision is there", fmt.Sprint(before.Revision), fmt.Sprint(m.Revision))
	case m.Revision == before.Revision:
		return refuse(verdict.Equivocation, fmt.Sprintf("there are two of revision %d", m.Revision), bundle.String(), "another bundle")
	case m.Revision == before.Revision+1 && !m.Supersedes.Equal(bundle):
		return refuse(verdict.Equivocation, "it supersedes another manifest than the one that is there", bundle.String(), m.Supersedes.String())
	case before.Withdrawn != nil && m.Withdrawn == nil:
		return verdict.Refuse(verdict.Withdrawn, "manifest", "revision %d withdrew the release, and no later one brings it back: %s", before.Revision, before.Withdrawn.Reason)
	case m.Source != before.Source || !m.Config.Equal(before.Config) || !sameLock(m.Lock, before.Lock):
		return refuse(verdict.NotBound, "it is built from another source", before.Source.Commit, m.Source.Commit)
	case m.FilesURI != before.FilesURI || m.ImagesURI != before.ImagesURI:
		return refuse(verdict.PlaceOther, "it is of another place", before.FilesURI+" "+before.ImagesURI, m.FilesURI+" "+m.ImagesURI)
	}
	return m.listsAgain(before)
}

func (m Manifest) title() string { return m.Name + " " + m.Version.String() }

// sameLock holds for two releases without a lock too, of which no digest is
// another's equal.
func sameLock(a, b digest.Digest) bool { return a.IsZero() && b.IsZero() || a.Equal(b) }

// listsAgain demands the same names with the same bytes, both ways.
func (m Manifest) listsAgain(before Manifest) error {
	for _, a := range m.Artifacts {
		if _, listed := before.Find(a.Name); !listed {
			return verdict.Refuse(verdict.PlanExtra, a.Name, "revision %d did not list it; a revision lists nothing more, which takes a new version", before.Revision)
		}
	}
	for _, b := range before.Artifacts {
		a, listed := m.Find(b.Name)
		switch {
		case !listed:
			return verdict.Refuse(verdict.PlanMissing, b.Name, "revision %d lists it; a revision lists nothing less, but can withdraw the release", before.Revision)
		case !a.Digests.Equal(b.Digests) || a.Size != b.Size:
			return &verdict.Error{Finding: verdict.Find(verdict.Tampered, a.Name, "revision %d lists other bytes under this name, which never change", before.Revision).
				Differ(b.Digests.SHA256.String(), a.Digests.SHA256.String())}
		case a.Class != b.Class || a.Platform != b.Platform || a.Step != b.Step:
			return verdict.Refuse(verdict.NotBound, a.Name, "revision %d says that it is something else: %s", before.Revision, b.Class)
		}
	}
	return nil
}

// Rebound are the names of the artifacts to which another revision binds other
// evidence than m does.
func (m Manifest) Rebound(other Manifest) []string {
	var names []string
	for _, a := range m.Artifacts {
		b, _ := other.Find(a.Name)
		if a.Provenance != b.Provenance || a.SBOM != b.SBOM || a.Signature != b.Signature {
			names = append(names, a.Name)
		}
	}
	return names
}
