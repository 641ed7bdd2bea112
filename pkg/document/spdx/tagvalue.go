package spdx

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spdx/tools-golang/convert"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_2"
	before "github.com/spdx/tools-golang/spdx/v2/v2_2/tagvalue/reader"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	now "github.com/spdx/tools-golang/spdx/v2/v2_3/tagvalue/reader"
	"github.com/spdx/tools-golang/tagvalue"
	tags "github.com/spdx/tools-golang/tagvalue/reader"

	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// EncodeTagValue writes d in the tag-value form. It refuses text that would end
// a line or a block early: the output always parses to the same document.
func EncodeTagValue(d Draft) ([]byte, error) {
	canonical, err := Encode(d)
	if err != nil {
		return nil, err
	}
	var doc v2_3.Document
	if err := json.Unmarshal(canonical, &doc); err != nil {
		return nil, encodeError(d, err)
	}
	var buf bytes.Buffer
	if err := tagvalue.Write(&doc, &buf); err != nil {
		return nil, encodeError(d, err)
	}
	if buf.Len() > MaxSize {
		return nil, tooLarge(int64(buf.Len()))
	}
	// The form has no escapes. Only parsing the output shows that no text was
	// taken for a line of its own.
	m, found := readLines(buf.String())
	back, err := accept(m, found)
	if err != nil {
		return nil, encodeError(d, fmt.Errorf("the document contains a text that cannot be written as tag-value: %w", err))
	}
	same, err := Parse(canonical)
	if err != nil {
		return nil, err
	}
	if diff := Twins(same, back); len(diff) > 0 {
		return nil, verdict.Refuse(verdict.SBOMTwin, d.Name, "the document contains a text that cannot be written as tag-value: %s", diff[0])
	}
	return buf.Bytes(), nil
}

// ParseTagValue parses a document of at most [MaxSize] bytes in the tag-value
// form, as strictly as [Parse].
func ParseTagValue(raw []byte) (Document, error) {
	if len(raw) > MaxSize {
		return Document{}, tooLarge(int64(len(raw)))
	}
	text := string(raw)
	m, found := readLines(text)
	d, err := accept(m, found)
	if err != nil {
		return Document{}, parseError(err)
	}
	d.raw = text
	return d, nil
}

// readLines parses lines with the library and checks their content.
func readLines(text string) (*model, faults) {
	r := &reader{}
	all, err := tagsOf(text)
	doc := &v2_3.Document{}
	if err == nil {
		doc, err = library(r.arrange(all))
	}
	if err != nil {
		r.add(ruleForm, "", "reading lines: %v", err)
		return &r.m, orElse(text, r.faults)
	}
	r.lines(doc)
	c := &checker{faults: r.faults, m: &r.m}
	c.check()
	if len(c.list) > 0 {
		lines := linesOf(text)
		for i := range c.list {
			c.list[i].Place = lines.place(c.list[i].Place, len(r.m.relationships)-len(doc.Relationships))
		}
	}
	return &r.m, c.faults
}

// library calls the parser of tools-golang, which is not made for hostile
// input: if it panics, the document does not parse.
func library(all []tags.TagValuePair) (doc *v2_3.Document, err error) {
	defer func() {
		if p := recover(); p != nil {
			doc, err = nil, fmt.Errorf("%s", quote(fmt.Sprint(p)))
		}
	}()
	version := slices.IndexFunc(all, func(t tags.TagValuePair) bool { return t.Tag == "SPDXVersion" })
	switch {
	case version >= 0 && all[version].Value == Version:
		doc, err = now.ParseTagValues(all)
	case version >= 0 && (all[version].Value == version22 || all[version].Value == "SPDX-2.1"): // which has no other tags
		var old *v2_2.Document
		if old, err = before.ParseTagValues(all); err == nil {
			doc = &v2_3.Document{}
			err = convert.Document(old, doc)
		}
	default:
		err = fmt.Errorf("no version that is read; want %s or %s", version22, Version)
	}
	if err != nil {
		return nil, fmt.Errorf("%s", quote(err.Error()))
	}
	return doc, nil
}

func (r *reader) lines(doc *v2_3.Document) {
	m := &r.m
	m.version, m.licence, m.id = doc.SPDXVersion, doc.DataLicense, elementPrefix+string(doc.SPDXIdentifier)
	m.name, m.namespace, m.comment = doc.DocumentName, doc.DocumentNamespace, doc.DocumentComment
	if info := doc.CreationInfo; info != nil {
		m.created, m.context = info.Created, info.CreatorComment
		m.creators = slice.Map(info.Creators, func(c common.Creator) string { return c.CreatorType + ": " + c.Creator })
	}
	for _, e := range doc.ExternalDocumentReferences {
		r.sums = []sum{{string(e.Checksum.Algorithm), e.Checksum.Value}}
		m.externals = append(m.externals, External{
			ID: documentPrefix + string(e.DocumentRefID), Namespace: e.URI, SHA256: r.set(r.sums).SHA256,
		})
	}
	for _, l := range doc.OtherLicenses {
		m.licences = append(m.licences, l.LicenseIdentifier)
	}
	for _, f := range doc.Files {
		r.fileLines(f)
	}
	for _, p := range doc.Packages {
		r.packageLines(p)
	}
	for _, rel := range doc.Relationships {
		m.relationships = append(m.relationships, Relationship{
			From: common.RenderDocElementID(rel.RefA), Type: rel.Relationship,
			To: common.RenderDocElementID(rel.RefB), Comment: rel.RelationshipComment,
		})
	}
	if len(m.relationships) > maxRelationships {
		r.add(ruleLimit, "", "more than %d relationships", maxRelationships)
	}
}

func (r *reader) packageLines(p *v2_3.Package) {
	id := elementPrefix + string(p.PackageSPDXIdentifier)
	out := Package{
		ID: id, Name: p.PackageName, Version: p.PackageVersion, FileName: p.PackageFileName, Purpose: strings.ReplaceAll(p.PrimaryPackagePurpose, "-", "_"),
		Download: p.PackageDownloadLocation, Licence: asserted(p.PackageLicenseDeclared), Source: p.PackageSourceInfo,
		Comment: p.PackageComment, Concluded: asserted(p.PackageLicenseConcluded), Digests: r.libraryDigests(p.PackageChecksums),
	}
	r.keep(id, "")
	for _, l := range append(p.PackageLicenseInfoFromFiles, p.PackageLicenseConcluded, p.PackageLicenseDeclared) {
		if l != "" {
			r.licence("licence", l)
		}
	}
	if s := p.PackageSupplier; s != nil && s.SupplierType != "" {
		out.Supplier = s.SupplierType + ": " + s.Supplier
	}
	if o := p.PackageOriginator; o != nil && o.OriginatorType != "" {
		out.Originator = o.OriginatorType + ": " + o.Originator
	}
	if c := p.PackageVerificationCode; c != nil {
		out.Verification = c.Value
		if len(c.ExcludedFiles) > 0 {
			r.m.excluding = append(r.m.excluding, id)
		}
	}
	for _, ref := range p.PackageExternalReferences {
		switch {
		case ref == nil:
		case ref.RefType == common.TypePackageManagerPURL && out.PURL == "":
			out.PURL = ref.Locator
		case ref.RefType == sumReference && out.Sum == "":
			out.Sum = ref.Locator
		case ref.Category != common.CategoryOther && out.Identifier == "":
			out.Identifier = ref.Locator
		}
	}
	r.m.packages = append(r.m.packages, out)
	for _, f := range p.Files {
		r.fileLines(f)
		r.m.relationships = append(r.m.relationships, Relationship{
			From: id, Type: Contains, To: elementPrefix + string(f.FileSPDXIdentifier),
		})
	}
}

func (r *reader) fileLines(f *v2_3.File) {
	out := File{
		ID: elementPrefix + string(f.FileSPDXIdentifier), Name: f.FileName, Comment: f.FileComment,
		Digests: r.libraryDigests(f.Checksums),
	}
	r.keep(out.ID, "SHA1")
	for _, s := range f.Checksums {
		if s.Algorithm == common.SHA1 && isHex(s.Value, 40) {
			out.SHA1 = s.Value
		}
	}
	if out.SHA1 == "" {
		r.add(ruleChecksum, "", "file %s: no SHA1 checksum", quote(f.FileName))
	}
	for _, l := range f.LicenseInfoInFiles {
		r.licence("licence", l)
		out.Licence = asserted(l)
	}
	r.m.files = append(r.m.files, out)
}

func (r *reader) libraryDigests(sums []common.Checksum) digest.Set {
	r.sums = r.sums[:0]
	for _, s := range sums {
		r.sums = append(r.sums, sum{string(s.Algorithm), s.Value})
	}
	return r.set(r.sums)
}
