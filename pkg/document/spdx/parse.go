package spdx

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Document is a parsed document with the bytes it was read from. It is not
// verified.
type Document struct {
	raw string
	m   *model
}

// Parse parses an SPDX 2.3 document of at most [MaxSize] bytes, in JSON. The
// refusal names the first fault; [Validate] lists all.
func Parse(raw []byte) (Document, error) {
	if len(raw) > MaxSize {
		return Document{}, tooLarge(int64(len(raw)))
	}
	text := string(raw)
	m, found := read(text)
	found = orElse(text, found)
	if m.version == version22 {
		found = faults{list: []Fault{{ruleHead, "spdxVersion", fmt.Sprintf("version %s, want %s", quote(m.version), Version)}}}
	}
	d, err := accept(m, found)
	d.raw = text
	if err != nil {
		return Document{}, parseError(err)
	}
	return d, nil
}

// ReadText reads a document into memory once. size is its expected size in
// bytes. The result is for [Validate].
func ReadText(r io.Reader, size int64) (string, error) {
	var b strings.Builder
	b.Grow(int(min(max(size, 0)+1, MaxSize)))
	n, err := io.Copy(&b, io.LimitReader(r, MaxSize+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("reading SPDX document: %w", err)
	case n > MaxSize:
		return "", tooLarge(n)
	}
	return b.String(), nil
}

func tooLarge(n int64) error {
	return verdict.Refuse(verdict.Limit, "SPDX document", "%d bytes, the limit is %d", n, MaxSize)
}

// accept refuses a model that could be misread.
func accept(m *model, found faults) (Document, error) {
	n, first := 0, Fault{}
	for _, f := range found.list {
		if !f.Rule.judged() {
			continue
		}
		if n == 0 {
			first = f
		}
		n++
	}
	switch {
	case n > 1:
		return Document{}, fmt.Errorf("%w (and %d more)", first, n-1)
	case n == 1:
		return Document{}, first
	case found.more > 0:
		return Document{}, Fault{Rule: ruleLimit, Message: fmt.Sprintf("more than %d faults", maxFaults)}
	}
	return Document{m: m}, nil
}

// parseError adds the code of the refusal.
func parseError(err error) error {
	code := verdict.StatementParse
	var f Fault
	if errors.As(err, &f) {
		code = f.Code()
	}
	err = verdict.Wrap(code, "SPDX document", fmt.Errorf("parsing SPDX document: %w", err))
	if refusal, is := errors.AsType[*verdict.Error](err); is {
		refusal.Finding.Fix = f.Fix()
	}
	return err
}

// Raw is the document as it was read.
func (d Document) Raw() []byte { return []byte(d.raw) }

// IsZero reports whether d is the zero Document.
func (d Document) IsZero() bool { return d.m == nil }

// Name is the name in the document.
func (d Document) Name() string { return d.model().name }

// Namespace is the URI by which other documents refer to this one.
func (d Document) Namespace() string { return d.model().namespace }

// Created is the creation time in the document.
func (d Document) Created() string { return d.model().created }

// Creators are the creators in the document: "Tool: waybill-v1.0.0".
func (d Document) Creators() []string { return append([]string(nil), d.model().creators...) }

// Context is the comment on the creation of the document, such as its stage.
func (d Document) Context() string { return d.model().context }

// Describes returns name and SHA-256 of the only element that the document
// describes. The digest is zero, and equals no digest, if the document
// describes several elements or gives no SHA-256.
func (d Document) Describes() (name string, sha256 digest.Digest) {
	about := d.model().about
	return about.name, about.sha256
}

// DescribedVersion is the version of the described element, "" if not given.
func (d Document) DescribedVersion() string { return d.model().about.version }

// ExternalRefs lists the other documents that this one refers to.
func (d Document) ExternalRefs() []External { return append([]External(nil), d.model().externals...) }

// Packages lists the packages in the order of the document.
func (d Document) Packages() []Package { return append([]Package(nil), d.model().packages...) }

// EachPackage iterates over the packages without copying the list, for large
// documents.
func (d Document) EachPackage() iter.Seq[Package] { return slices.Values(d.model().packages) }

// Files lists the files in the order of the document.
func (d Document) Files() []File { return append([]File(nil), d.model().files...) }

// Checksums lists those of packages and files that are neither SHA-256 nor
// SHA-512; the SHA-1 of a file is in [File].
func (d Document) Checksums() []Checksum { return append([]Checksum(nil), d.model().weak...) }

// Relationships lists the relationships in the order of the document; those in
// a short form of the format come with their element.
func (d Document) Relationships() []Relationship {
	return append([]Relationship(nil), d.model().relationships...)
}

// EachRelationship iterates as [Document.EachPackage] does.
func (d Document) EachRelationship() iter.Seq[Relationship] {
	return slices.Values(d.model().relationships)
}

// Unknown lists what the document declares as unknown: the comments of its
// relationships to NOASSERTION.
func (d Document) Unknown() (list []string) {
	for _, r := range d.model().relationships {
		if r.To == NoAssertion {
			list = append(list, r.Comment)
		}
	}
	return list
}

func (d Document) model() *model {
	if d.m == nil {
		return &model{}
	}
	return d.m
}

// ParsedFrom returns a document with the contents of a draft that was read from
// raw, a text of another standard. weak is for [Document.Checksums].
func (d Draft) ParsedFrom(raw []byte, weak ...Checksum) (Document, error) {
	m := &model{
		name: d.Name, namespace: d.Namespace, creators: []string{"Tool: " + d.Tool},
		packages: d.Packages, files: d.Files, relationships: d.Relationships, weak: weak,
	}
	if !d.Created.IsZero() {
		m.created = d.Created.UTC().Format(timeLayout)
	}
	c := &checker{m: m, elements: map[string]element{DocumentID: {kind: theDocument}}}
	c.register()
	c.relationships()
	c.subject()
	doc, err := accept(m, faults{Report{Faults: c.list}.Standard(), c.more})
	if err != nil {
		return Document{}, parseError(err)
	}
	doc.raw = string(raw)
	return doc, nil
}

// other is a kind of file that people mistake for an SPDX document, how to
// detect it, and what to do.
type other struct {
	marks []string // the head of the file contains all of these
	fault Fault
}

func others() []other {
	const (
		inside  = "the SBOM may be its predicate: waybill inspect FILE shows it, and "
		payload = " | base64 -d | jq .predicate > sbom.spdx.json extracts it"
	)
	return []other{
		{[]string{`"@graph"`, "spdx.org/rdf/3"}, Fault{ruleHead, "@context", "SPDX version 3 is not supported; write the document as " + Version}},
		{[]string{`"bomFormat"`, "CycloneDX"}, Fault{ruleForm, "bomFormat", "this is a CycloneDX document, which waybill sbom check compares with bytes; for the rules of SPDX let its tool write " + Version + " (syft: -o spdx-json)"}},
		{[]string{"vnd.dev.sigstore.bundle", `"dsseEnvelope"`}, Fault{ruleForm, "mediaType",
			"this is a Sigstore bundle, a signed statement; " + inside + "jq -r .dsseEnvelope.payload FILE" + payload}},
		{[]string{"vnd.dev.sigstore.bundle"}, Fault{ruleForm, "mediaType", "this is a Sigstore bundle, the signature of a file; give the file itself"}},
		{[]string{`"payloadType"`, `"signatures"`}, Fault{ruleForm, "payloadType",
			"this is a signed statement in a DSSE envelope; " + inside + "jq -r .payload FILE" + payload}},
		{[]string{`"_type"`, "in-toto.io/Statement"}, Fault{ruleForm, "_type",
			"this is an in-toto statement; " + inside + "jq .predicate FILE > sbom.spdx.json extracts it"}},
		{[]string{`"application/vnd.oci.image`, `"schemaVersion"`}, Fault{ruleForm, "mediaType",
			"this is the manifest of an image; waybill sbom generate describes the image"}},
		{[]string{"<", "cyclonedx.org/schema/bom"}, Fault{ruleForm, "", "this is CycloneDX in XML, which is not supported; write it as JSON (cyclonedx convert --output-format json)"}},
		{[]string{"<rdf:RDF"}, Fault{ruleForm, "", "this is SPDX in RDF/XML, which is not supported; write it as JSON or tag-value"}},
		{[]string{"spdxVersion:", "SPDXID:", "documentNamespace:"}, Fault{ruleForm, "", "this is SPDX in YAML, which is not supported; write it as JSON or tag-value"}},
	}
}

// orElse replaces the list of faults of a file that is not an SPDX 2 document,
// or is one in an unsupported form, with a message that says what it is.
func orElse(text string, found faults) faults {
	if len(found.list) == 0 {
		return found
	}
	if strings.HasPrefix(text, byteOrderMark) {
		return faults{list: []Fault{{ruleForm, "", "the file begins with a byte order mark, which neither form allows; remove it: sed '1s/^\\xEF\\xBB\\xBF//'"}}}
	}
	const enough = 1 << 20
	text = text[:min(len(text), enough)]
	if strings.Contains(text, `"spdxVersion"`) && !strings.Contains(text, `"predicate`) {
		return found
	}
	for _, o := range others() {
		is := true
		for _, mark := range o.marks {
			is = is && strings.Contains(text, mark)
		}
		if is {
			return faults{list: []Fault{o.fault}}
		}
	}
	return found
}
