package manifest

import (
	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/release/plan"
)

// inTotoRelease is in-toto's release predicate, with the fields that all its
// versions have.
type inTotoRelease struct {
	PURL string `json:"purl"`
}

// InToto is the manifest as an in-toto release statement: the artifacts of one
// release of a package, each by name and digests, without the file that
// contains the statement. It says less than the manifest and is for other
// readers.
//
// Specification: in-toto attestation framework, predicate "Release".
func (m Manifest) InToto(file string) (intoto.Statement, error) {
	var subjects []intoto.Subject
	for _, a := range m.Artifacts {
		switch {
		case a.Name == file:
		case a.IsImage() && a.Platform != "":
			subjects = append(subjects, intoto.Subject{Name: m.ImagesURI + "/" + a.Repository + "/" + a.Platform, Digests: a.Digests})
		case a.IsImage():
			subjects = append(subjects, intoto.Subject{Name: m.ImagesURI + "/" + a.Repository, Digests: a.Digests})
		default:
			subjects = append(subjects, intoto.Subject{Name: a.Name, Digests: a.Digests})
		}
	}
	return intoto.New(intoto.Release, subjects, inTotoRelease{PURL: "pkg:generic/" + m.Name + "@" + m.Version.String()})
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
