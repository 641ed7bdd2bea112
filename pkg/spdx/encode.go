package spdx

import (
	"bytes"
	"crypto/sha1" // the verification code of SPDX 2.3 is defined over SHA-1
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// Encode writes d. It refuses whatever [Parse] would refuse, so that what is
// written can be read.
func Encode(d Draft) ([]byte, error) {
	doc, err := d.model()
	if err != nil {
		return nil, verdict.Wrap(verdict.StatementParse, d.Name, fmt.Errorf("encoding SPDX document: %w", err))
	}
	if _, err := inspect(doc); err != nil {
		return nil, verdict.Wrap(verdict.StatementParse, d.Name, fmt.Errorf("encoding SPDX document: %w", err))
	}
	var buf bytes.Buffer
	if err := spdxjson.Write(doc, &buf, spdxjson.Indent("  "), spdxjson.EscapeHTML(false)); err != nil {
		return nil, fmt.Errorf("encoding SPDX document %q: %w", d.Name, err)
	}
	if buf.Len() > MaxSize {
		return nil, verdict.Refuse(verdict.Limit, d.Name, "the SPDX document has %d bytes, the limit is %d", buf.Len(), MaxSize)
	}
	return buf.Bytes(), nil
}

// VerificationCode is the roll-up of all files of a package (section 7.9): the
// SHA-1 of their sorted SHA-1 values. It binds nothing; it lets other tools
// notice a file that was left out.
func VerificationCode(files []File) string {
	sums := make([]string, len(files))
	for i, f := range files {
		sums[i] = f.SHA1
	}
	slices.Sort(sums)
	h := sha1.New()
	for _, s := range sums {
		_, _ = io.WriteString(h, s)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (d Draft) model() (*v2_3.Document, error) {
	doc := &v2_3.Document{
		SPDXVersion: Version, DataLicense: dataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName: d.Name, DocumentNamespace: d.Namespace, DocumentComment: d.Comment,
		CreationInfo: &v2_3.CreationInfo{
			Created:  d.Created.UTC().Format(timeLayout),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: d.Tool}},
		},
	}
	if d.Created.IsZero() || d.Tool == "" {
		return nil, fmt.Errorf("no time of creation or no tool")
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
		PackageFileName: p.FileName, PackageDownloadLocation: p.Download,
		IsFilesAnalyzedTagPresent: true, PackageChecksums: checksums(p.Digests),
		PackageLicenseConcluded: NoAssertion, PackageLicenseDeclared: NoAssertion,
		PackageCopyrightText: NoAssertion, PackageComment: p.Comment, PrimaryPackagePurpose: p.Purpose,
		PackageSupplier: &common.Supplier{Supplier: NoAssertion},
	}
	if p.Download == "" {
		out.PackageDownloadLocation = NoAssertion
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
	return out
}

func (f File) model(id common.ElementID) *v2_3.File {
	return &v2_3.File{
		FileName: f.Name, FileSPDXIdentifier: id,
		Checksums:        append([]common.Checksum{{Algorithm: common.SHA1, Value: f.SHA1}}, checksums(f.Digests)...),
		LicenseConcluded: NoAssertion, LicenseInfoInFiles: []string{NoAssertion},
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

// idReader takes identifiers apart and keeps the first error.
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
