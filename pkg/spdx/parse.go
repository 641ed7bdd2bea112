package spdx

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/strictjson"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// Document is a parsed document beside the bytes it was read from. Nobody has
// been believed.
type Document struct {
	raw   []byte
	doc   *v2_3.Document
	about described
}

// form names the keys that carry weight. The model's own decoder takes keys in
// any letter case; passing the document through this first leaves it no choice.
type form struct {
	SPDXVersion       string `json:"spdxVersion"`
	DataLicense       string `json:"dataLicense"`
	SPDXID            string `json:"SPDXID"`
	Name              string `json:"name"`
	DocumentNamespace string `json:"documentNamespace"`
	CreationInfo      struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	} `json:"creationInfo"`
	DocumentDescribes    []string `json:"documentDescribes"`
	ExternalDocumentRefs []struct {
		ExternalDocumentID string   `json:"externalDocumentId"`
		SPDXDocument       string   `json:"spdxDocument"`
		Checksum           checksum `json:"checksum"`
	} `json:"externalDocumentRefs"`
	Packages []struct {
		SPDXID           string     `json:"SPDXID"`
		Name             string     `json:"name"`
		VersionInfo      string     `json:"versionInfo"`
		PackageFileName  string     `json:"packageFileName"`
		DownloadLocation string     `json:"downloadLocation"`
		FilesAnalyzed    bool       `json:"filesAnalyzed"`
		HasFiles         []string   `json:"hasFiles"`
		Checksums        []checksum `json:"checksums"`
		ExternalRefs     []struct {
			ReferenceType    string `json:"referenceType"`
			ReferenceLocator string `json:"referenceLocator"`
		} `json:"externalRefs"`
	} `json:"packages"`
	Files []struct {
		SPDXID    string     `json:"SPDXID"`
		FileName  string     `json:"fileName"`
		Checksums []checksum `json:"checksums"`
	} `json:"files"`
	Snippets []struct {
		SPDXID string `json:"SPDXID"`
	} `json:"snippets"`
	Relationships []struct {
		SPDXElementID      string `json:"spdxElementId"`
		RelatedSPDXElement string `json:"relatedSpdxElement"`
		RelationshipType   string `json:"relationshipType"`
	} `json:"relationships"`
}

type checksum struct {
	Algorithm     string `json:"algorithm"`
	ChecksumValue string `json:"checksumValue"`
}

// Parse reads an SPDX 2.3 document of at most [MaxSize] bytes.
func Parse(raw []byte) (Document, error) {
	if len(raw) > MaxSize {
		return Document{}, verdict.Refuse(verdict.Limit, "SPDX document", "%d bytes, the limit is %d", len(raw), MaxSize)
	}
	d, err := parse(raw)
	if err == nil {
		return d, nil
	}
	code := verdict.StatementParse
	var strict *strictjson.Error
	if errors.As(err, &strict) && strings.HasPrefix(strict.Code, "LIMIT") {
		code = verdict.Limit
	}
	return Document{}, verdict.Wrap(code, "SPDX document", fmt.Errorf("parsing SPDX document: %w", err))
}

func parse(raw []byte) (Document, error) {
	var f form
	if err := strictjson.UnmarshalOpen(raw, &f, strictjson.MaxSize(MaxSize)); err != nil {
		return Document{}, err
	}
	if f.SPDXVersion != Version {
		return Document{}, fmt.Errorf("version %s, want %s", quote(f.SPDXVersion), Version)
	}
	d := Document{raw: slices.Clone(raw), doc: &v2_3.Document{}}
	if err := json.Unmarshal(raw, d.doc); err != nil {
		return Document{}, err
	}
	var err error
	if d.about, err = inspect(d.doc); err != nil {
		return Document{}, err
	}
	return d, nil
}

// Raw is the document as it was read.
func (d Document) Raw() []byte { return slices.Clone(d.raw) }

// IsZero reports whether d was never parsed.
func (d Document) IsZero() bool { return d.doc == nil }

// Name is the name the document gives itself.
func (d Document) Name() string { return d.model().DocumentName }

// Namespace is the address by which other documents refer to this one.
func (d Document) Namespace() string { return d.model().DocumentNamespace }

// Describes returns name and SHA-256 of the one element the document is about.
// The digest is zero, and so equals nothing, if the document describes several
// elements or gives no SHA-256.
func (d Document) Describes() (name string, sha256 digest.Digest) {
	return d.about.name, d.about.sha256
}

// ExternalRefs lists the other documents that this one refers to.
func (d Document) ExternalRefs() []External {
	var list []External
	for _, e := range d.model().ExternalDocumentReferences {
		list = append(list, External{
			ID: documentPrefix + string(e.DocumentRefID), Namespace: e.URI,
			SHA256: known([]common.Checksum{e.Checksum}).SHA256,
		})
	}
	return list
}

// Packages lists the packages of the document in its order.
func (d Document) Packages() []Package {
	var list []Package
	for _, p := range d.model().Packages {
		out := Package{
			ID: elementPrefix + string(p.PackageSPDXIdentifier), Name: p.PackageName, Version: p.PackageVersion,
			FileName: p.PackageFileName, Purpose: p.PrimaryPackagePurpose, Download: p.PackageDownloadLocation,
			Digests: known(p.PackageChecksums), Comment: p.PackageComment,
		}
		if p.PackageVerificationCode != nil {
			out.Verification = p.PackageVerificationCode.Value
		}
		for _, ref := range p.PackageExternalReferences {
			if ref != nil && ref.RefType == common.TypePackageManagerPURL && out.PURL == "" {
				out.PURL = ref.Locator
			}
		}
		list = append(list, out)
	}
	return list
}

// Files lists the files of the document in its order.
func (d Document) Files() []File {
	var list []File
	for _, f := range d.model().Files {
		list = append(list, File{
			ID: elementPrefix + string(f.FileSPDXIdentifier), Name: f.FileName,
			SHA1: sha1Of(f.Checksums), Digests: known(f.Checksums), Comment: f.FileComment,
		})
	}
	return list
}

// Relationships lists the relationships of the document in its order; those
// written in one of the format's short forms come last.
func (d Document) Relationships() []Relationship {
	var list []Relationship
	for _, r := range d.model().Relationships {
		list = append(list, Relationship{
			From: common.RenderDocElementID(r.RefA), Type: r.Relationship,
			To: common.RenderDocElementID(r.RefB), Comment: r.RelationshipComment,
		})
	}
	return list
}

func (d Document) model() *v2_3.Document {
	if d.doc == nil {
		return &v2_3.Document{}
	}
	return d.doc
}

// known reads checksums that inspect has accepted.
func known(sums []common.Checksum) digest.Set {
	set, err := digests(sums)
	if err != nil {
		panic("spdx: a checksum of an accepted document does not parse: " + err.Error())
	}
	return set
}
