package spdx

import (
	"fmt"
	"strings"

	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Encode writes d. It refuses whatever [Parse] would refuse, so the output can
// always be parsed.
func Encode(d Draft) ([]byte, error) {
	text, err := d.text()
	if err != nil {
		return nil, encodeError(d, err)
	}
	if len(text) > MaxSize {
		return nil, verdict.Refuse(verdict.Limit, d.Name, "the SPDX document has %d bytes, the limit is %d", len(text), MaxSize)
	}
	m, found := read(text)
	if _, err := accept(m, found); err != nil {
		return nil, encodeError(d, err)
	}
	return []byte(text), nil
}

func encodeError(d Draft, err error) error {
	return verdict.Wrap(verdict.StatementParse, d.Name, fmt.Errorf("encoding SPDX document: %w", err))
}

func (d Draft) model() (*v2_3.Document, error) {
	doc := &v2_3.Document{
		SPDXVersion: Version, DataLicense: dataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName: d.Name, DocumentNamespace: d.Namespace, DocumentComment: d.Comment,
		CreationInfo: &v2_3.CreationInfo{
			Created:        d.Created.UTC().Format(timeLayout),
			CreatorComment: d.Context,
		},
	}
	for _, who := range d.creators() {
		kind, name, _ := strings.Cut(who, ": ")
		doc.CreationInfo.Creators = append(doc.CreationInfo.Creators, common.Creator{CreatorType: kind, Creator: name})
	}
	if d.Created.IsZero() || d.Tool == "" {
		return nil, fmt.Errorf("the time of creation or the tool is missing")
	}
	var ids idReader
	for _, e := range d.External {
		doc.ExternalDocumentReferences = append(doc.ExternalDocumentReferences, v2_3.ExternalDocumentRef{
			DocumentRefID: ids.document(e.ID), URI: e.Namespace,
			Checksum: common.Checksum{Algorithm: common.SHA256, Value: e.SHA256.Hex()},
		})
	}
	for _, p := range d.Packages {
		doc.Packages = append(doc.Packages, p.model(ids.element(p.ID)))
	}
	for _, f := range d.Files {
		doc.Files = append(doc.Files, f.model(ids.element(f.ID)))
	}
	for _, r := range d.Relationships {
		doc.Relationships = append(doc.Relationships, &v2_3.Relationship{
			RefA: ids.either(r.From), RefB: ids.either(r.To),
			Relationship: r.Type, RelationshipComment: r.Comment,
		})
	}
	return doc, ids.err
}

func (p Package) model(id common.ElementID) *v2_3.Package {
	out := &v2_3.Package{
		PackageName: p.Name, PackageSPDXIdentifier: id, PackageVersion: p.Version,
		PackageFileName: p.FileName, PackageDownloadLocation: orNothing(p.Download),
		IsFilesAnalyzedTagPresent: true, PackageChecksums: checksums(p.Digests),
		PackageLicenseConcluded: NoAssertion, PackageLicenseDeclared: orNothing(p.Licence),
		PackageCopyrightText: NoAssertion, PackageComment: p.Comment, PrimaryPackagePurpose: p.Purpose,
		PackageSourceInfo: p.Source, PackageSupplier: supplier(p.Supplier),
	}
	if p.Version == "" {
		out.PackageVersion = NoAssertion
	}
	if kind, name, found := strings.Cut(p.Originator, ": "); found {
		out.PackageOriginator = &common.Originator{OriginatorType: kind, Originator: name}
	}
	if p.Verification != "" {
		out.FilesAnalyzed = true
		out.PackageVerificationCode = &common.PackageVerificationCode{Value: p.Verification}
		out.PackageLicenseInfoFromFiles = []string{NoAssertion}
	}
	if p.PURL != "" {
		out.PackageExternalReferences = []*v2_3.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: p.PURL,
		}}
	}
	if p.Sum != "" {
		out.PackageExternalReferences = append(out.PackageExternalReferences, &v2_3.PackageExternalReference{
			Category: common.CategoryOther, RefType: sumReference, Locator: p.Sum,
		})
	}
	return out
}

// orNothing returns s, or NOASSERTION if it is empty.
func orNothing(s string) string {
	if s == "" {
		return NoAssertion
	}
	return s
}

func supplier(s string) *common.Supplier {
	kind, name, found := strings.Cut(s, ": ")
	if !found {
		return &common.Supplier{Supplier: NoAssertion}
	}
	return &common.Supplier{SupplierType: kind, Supplier: name}
}

func (f File) model(id common.ElementID) *v2_3.File {
	return &v2_3.File{
		FileName: f.Name, FileSPDXIdentifier: id,
		Checksums:        append([]common.Checksum{{Algorithm: common.SHA1, Value: f.SHA1}}, checksums(f.Digests)...),
		LicenseConcluded: NoAssertion, LicenseInfoInFiles: []string{orNothing(f.Licence)},
		FileCopyrightText: NoAssertion, FileComment: f.Comment,
	}
}

func checksums(s digest.Set) []common.Checksum {
	var list []common.Checksum
	if !s.SHA256.IsZero() {
		list = append(list, common.Checksum{Algorithm: common.SHA256, Value: s.SHA256.Hex()})
	}
	if !s.SHA512.IsZero() {
		list = append(list, common.Checksum{Algorithm: common.SHA512, Value: s.SHA512.Hex()})
	}
	return list
}

// idReader splits identifiers and keeps the first error.
type idReader struct{ err error }

func (r *idReader) element(id string) common.ElementID {
	return common.ElementID(r.trim(id, elementPrefix))
}

func (r *idReader) document(id string) common.DocumentID {
	return common.DocumentID(r.trim(id, documentPrefix))
}

func (r *idReader) either(id string) common.DocElementID {
	if id == NoAssertion || id == none {
		return common.MakeDocElementSpecial(id)
	}
	document, element, found := strings.Cut(id, ":")
	if !found {
		return common.DocElementID{ElementRefID: r.element(id)}
	}
	return common.DocElementID{DocumentRefID: r.document(document), ElementRefID: r.element(element)}
}

func (r *idReader) trim(id, prefix string) string {
	rest, found := strings.CutPrefix(id, prefix)
	if !found && r.err == nil {
		r.err = fmt.Errorf("identifier %q does not begin with %s", id, prefix)
	}
	return rest
}
