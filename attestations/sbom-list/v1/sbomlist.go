// Package sbomlist is the encoding of the sbom-list predicate, version 1: the
// release identity states which files are the SBOMs of a release, by name and
// digests.
//
//	s, err := sbomlist.Predicate{Name: "lantern", Version: "v0.1.0"}.Of(sboms)
//	p, err := sbomlist.Parse(evidence.Statement())
//
// The README beside this file is the specification and schema.json its JSON
// Schema. pkg/gate compares the list with the manifest of the release.
package sbomlist

import (
	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// PredicateType is the type of the predicate.
const PredicateType = "https://github.com/waybill-release/waybill/attestations/sbom-list/v1"

// Name is the name of the bundle, in the file place of the release.
const Name = "sboms.sigstore.json"

// maxSize limits the predicate, which has two fields.
const maxSize = 4 << 10

// names matches the names of releases.
var names = pattern.Lazy(`\A[A-Za-z0-9][A-Za-z0-9._-]{0,127}\z`)

// Predicate identifies the release. Its SBOMs are the subjects of the statement.
type Predicate struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Of makes the statement that these are the SBOMs of the release.
func (p Predicate) Of(sboms []intoto.Subject) (intoto.Statement, error) {
	return intoto.NewFor(Parse, PredicateType, sboms, p)
}

// Parse parses the statement strictly. Each subject has a name of a file and
// both digests; a release without SBOMs has no list.
func Parse(s intoto.Statement) (p Predicate, err error) {
	s, err = s.DecodeStrict(PredicateType, Name, "a list of SBOMs", maxSize, &p)
	if err != nil {
		return Predicate{}, err
	}
	if !names().MatchString(p.Name) {
		return Predicate{}, refuse("name %q: want up to 128 of letters, digits and ._-", p.Name)
	}
	if _, err := version.Parse(p.Version); err != nil {
		return Predicate{}, refuse("version: %v", err)
	}
	seen := map[string]bool{}
	for _, sbom := range s.Subjects() {
		switch err := releasemanifest.CheckName(sbom.Name); {
		case err != nil:
			return Predicate{}, refuse("%v", err)
		case seen[sbom.Name]:
			return Predicate{}, refuse("%q is listed twice", sbom.Name)
		case sbom.Digests.SHA256.IsZero() || sbom.Digests.SHA512.IsZero():
			return Predicate{}, refuse("%q: want sha256 and sha512", sbom.Name)
		}
		seen[sbom.Name] = true
	}
	return p, nil
}

func refuse(format string, args ...any) error {
	return verdict.Refuse(verdict.StatementParse, Name, format, args...)
}
