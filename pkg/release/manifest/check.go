package manifest

import (
	"slices"
	"strings"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// fileClasses are the classes of artifacts in the file place. The list is
// closed: the evidence that an unknown class needs is unknown too.
var fileClasses = []plan.Class{
	plan.Binary, plan.Archive, plan.Other, plan.SBOM, plan.Provenance, plan.ProvenanceV02, plan.Signature, plan.ConfigFile, plan.Sums, plan.Checksum,
}

// checkEntry refuses an entry whose place does not fit its class, or whose
// image does not fit its name.
func (m *Manifest) checkEntry(a Artifact, place string) error {
	if err := releasemanifest.CheckName(a.Name); err != nil {
		return verdict.Wrap(verdict.Path, a.Name, err)
	}
	refuse := func(reason string) error { return verdict.Refuse(verdict.ManifestParse, a.Name, "%s", reason) }
	switch {
	case a.Size < 0:
		return refuse("the size is negative")
	case a.MediaType == "":
		return refuse("the entry has no media type")
	case a.Digests.SHA512.IsZero():
		return refuse("the subject has no sha512 digest")
	case !a.IsImage() && !slices.Contains(fileClasses, a.Class):
		return refuse("the class is unknown in this version of the manifest")
	case !a.IsImage() && (place != "files" || a.Repository != "" || len(a.Tags) > 0 || strings.HasPrefix(a.Name, "oci/")):
		return refuse("the class is that of a file, but name, place, repository or tags are those of an image")
	case a.IsImage() && (place != "images" || m.ImagesURI == "" || a.Repository == ""):
		return refuse("the class is that of an image, but there is no place or repository of images")
	case a.Class == plan.Image && a.Name != "oci/"+a.Repository:
		return refuse("the name does not match the repository")
	case a.Class == plan.Image && !slices.Equal(a.Tags, []string{m.Version.ImageTag()}):
		return refuse("the only tag of an image must be the version")
	case a.Class == plan.ImageChild && (a.Platform == "" || a.Name != "oci/"+a.Repository+"/"+a.Platform || len(a.Tags) > 0):
		return refuse("the name must match repository and platform, and there must be no tags")
	}
	return nil
}

// checkEvidence refuses an entry whose evidence is listed with another class:
// verifiers judge by class. Whether evidence is listed at all is checked by the
// verifier.
func (m *Manifest) checkEvidence() error {
	for _, a := range m.Artifacts {
		named := map[plan.Class]string{plan.Provenance: a.Provenance, plan.SBOM: a.SBOM, plan.Signature: a.Signature}
		for _, class := range []plan.Class{plan.Provenance, plan.SBOM, plan.Signature} {
			if e, listed := m.Find(named[class]); listed && e.Class != class {
				return verdict.Refuse(verdict.ManifestParse, a.Name, "its %s, %s, is listed with class %s", class, e.Name, e.Class)
			}
		}
	}
	return nil
}

// checkConfig refuses a manifest whose entries for the configuration files have
// other digests than the manifest names.
func (m *Manifest) checkConfig() error {
	if err := m.checkListed(plan.ConfigName, m.Config); err != nil {
		return err
	}
	return m.checkListed(plan.LockName, m.Lock)
}

// checkCommit refuses a build between two releases whose version names another
// commit than the one that was built.
func (m *Manifest) checkCommit() error {
	if m.Version.Of(m.Source.Commit) {
		return nil
	}
	return &verdict.Error{Finding: verdict.Find(verdict.SourceCommit, "manifest", "the version of the build names another commit than the one that was built").
		Differ("the commit in "+m.Version.String(), m.Source.Commit)}
}

func (m *Manifest) checkListed(name string, want digest.Digest) error {
	a, listed := m.Find(name)
	if !listed || a.Digests.SHA256.Equal(want) {
		return nil
	}
	return &verdict.Error{Finding: verdict.Find(verdict.ManifestParse, name, "the listed digest differs from the one that the release was built from").
		Differ(want.String(), a.Digests.SHA256.String())}
}

// fileDigest reads a configuration file of a fixed name.
func fileDigest(f *releasemanifest.File, name string) (digest.Digest, error) {
	if f == nil {
		return digest.Digest{}, nil
	}
	if f.Path != name {
		return digest.Digest{}, verdict.Refuse(verdict.ManifestParse, "manifest", "configuration %q, want %s", f.Path, name)
	}
	return digest.ParseHex(digest.SHA256, f.SHA256)
}

// supersedes reads the chain of revisions: the first supersedes nothing, every
// other names what it supersedes and why.
func supersedes(wire releasemanifest.Predicate) (digest.Digest, error) {
	if wire.Revision == 1 && wire.Supersedes == "" {
		return digest.Digest{}, nil
	}
	if wire.Revision == 1 || wire.Supersedes == "" || wire.Change == "" {
		return digest.Digest{}, verdict.Refuse(verdict.ManifestParse, "manifest", "revision %d: revision 1 must not have supersedes, and each later one requires supersedes and change", wire.Revision)
	}
	d, err := digest.Parse(wire.Supersedes)
	if d.Algorithm() != digest.SHA256 { // nor is it that of a text that is no digest
		err = verdict.Refuse(verdict.ManifestParse, "manifest", "supersedes: want a sha256 digest")
	}
	return d, err
}
