package manifest

import (
	"github.com/waybill-release/waybill/pkg/document/intoto"
)

// inTotoRelease is the release predicate of in-toto, of which we say what every
// version of it has.
type inTotoRelease struct {
	PURL string `json:"purl"`
}

// InToto is what the manifest says in the words of in-toto: the artifacts of
// one release of a package, each by its name and digests. It leaves out the
// file that holds it. The manifest says more; this is for readers that know no
// other.
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
