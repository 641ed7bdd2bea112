package manifest

import (
	"bytes"
	"slices"

	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// inTotoRelease is in-toto's release predicate, with the field that all its
// versions have.
type inTotoRelease struct {
	PURL string `json:"purl"`
}

// ForReaders is the manifest as the statement of a planned file about the whole
// release, a packslip or in-toto's release predicate. It says less than the manifest
// and is for other readers. An existing statement decides what the manifest leaves
// open: the version of in-toto's predicate, and when the packslip was made.
func (m Manifest) ForReaders(planned plan.Plan, file plan.Artifact, existing intoto.Statement, signer identity.Identity) (intoto.Statement, error) {
	if file.IsPackslip() {
		return m.packslip(planned.Repository, existing, signer)
	}
	kind := intoto.Release
	if older := "https://in-toto.io/attestation/release/v0.1"; existing.PredicateType() == older {
		kind = older
	}
	var subjects []intoto.Subject
	for _, a := range m.Artifacts {
		switch {
		case a.Name == file.Name:
		case a.IsImage() && a.Platform != "":
			subjects = append(subjects, intoto.Subject{Name: m.ImagesURI + "/" + a.Repository + "/" + a.Platform, Digests: a.Digests})
		case a.IsImage():
			subjects = append(subjects, intoto.Subject{Name: m.ImagesURI + "/" + a.Repository, Digests: a.Digests})
		default:
			subjects = append(subjects, intoto.Subject{Name: a.Name, Digests: a.Digests})
		}
	}
	return intoto.New(kind, subjects, inTotoRelease{PURL: "pkg:generic/" + m.Name + "@" + m.Version.String()})
}

// Provenance are the files with the provenance of the steps.
func (m Manifest) Provenance() []Artifact {
	return m.filter(func(a Artifact) bool { return a.Class == plan.Provenance })
}

// CheckLines refuses a file unless its lines are exactly the provenance files of
// the manifest.
func (m Manifest) CheckLines(name string, raw []byte) error {
	same := func(line []byte, a Artifact) bool { return digest.Of(digest.SHA256, line).Equal(a.Digests.SHA256) }
	if !slices.EqualFunc(bytes.Split(bytes.TrimSuffix(raw, []byte("\n")), []byte("\n")), m.Provenance(), same) {
		return verdict.Refuse(verdict.Conflict, name, "its lines differ from the provenance files that the manifest lists")
	}
	return nil
}

// SBOMList is the statement that lists the SBOMs of the release.
func (m Manifest) SBOMList() (intoto.Statement, error) {
	var sboms []intoto.Subject
	for _, a := range m.Artifacts {
		if a.Class == plan.SBOM {
			sboms = append(sboms, intoto.Subject{Name: a.Name, Digests: a.Digests})
		}
	}
	return sbomlist.Predicate{Name: m.Name, Version: m.Version.String()}.Of(sboms)
}
