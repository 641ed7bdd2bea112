package spdx

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// writer writes a draft as JSON, in one pass and into one buffer. The output
// is, byte for byte, that of the library, which makes a second copy of the
// document in values and a third one without indentation.
type writer struct {
	b      strings.Builder
	indent string // a line end and the indentation
	filled bool   // the innermost object or list has an element
	err    error
}

func (d Draft) text() (string, error) {
	if d.Created.IsZero() || d.Tool == "" {
		return "", fmt.Errorf("the time of creation or the tool is missing")
	}
	w := &writer{indent: "\n"}
	w.b.Grow(d.size())
	w.object("", func() {
		w.str("spdxVersion", Version)
		w.str("dataLicense", dataLicense)
		w.str("SPDXID", DocumentID)
		w.str("name", d.Name)
		w.str("documentNamespace", d.Namespace)
		w.list("externalDocumentRefs", len(d.External), func(i int) { w.external(d.External[i]) })
		w.some("comment", d.Comment)
		w.object("creationInfo", func() {
			w.words("creators", slices.DeleteFunc([]string{d.Author, "Tool: " + d.Tool}, func(who string) bool { return who == "" })...)
			w.str("created", d.Created.UTC().Format(timeLayout))
			w.some("comment", d.Context)
		})
		w.list("packages", len(d.Packages), func(i int) { w.aPackage(&d.Packages[i]) })
		w.list("files", len(d.Files), func(i int) { w.file(&d.Files[i]) })
		w.list("relationships", len(d.Relationships), func(i int) { w.relationship(&d.Relationships[i]) })
	})
	w.b.WriteByte('\n')
	return w.b.String(), w.err
}

// size estimates the length of the document, so that the buffer need not grow.
func (d Draft) size() int {
	n := 1024 + len(d.Comment) + 400*len(d.External)
	for i := range d.Packages {
		p := &d.Packages[i]
		n += 900 + len(p.ID) + len(p.Name) + len(p.Version) + len(p.PURL) + len(p.Source) + len(p.Supplier) + len(p.Originator) + len(p.Comment)
	}
	for i := range d.Files {
		f := &d.Files[i]
		n += 580 + len(f.ID) + len(f.Name) + len(f.Comment)
	}
	for i := range d.Relationships {
		r := &d.Relationships[i]
		n += 160 + len(r.From) + len(r.To) + len(r.Comment)
	}
	return min(n, MaxSize+1)
}

func (w *writer) external(e External) {
	w.id("externalDocumentId", e.ID, documentPrefix)
	w.str("spdxDocument", e.Namespace)
	w.object("checksum", func() { w.checksum("SHA256", e.SHA256.Hex()) })
}

func (w *writer) aPackage(p *Package) {
	w.str("name", p.Name)
	w.id("SPDXID", p.ID, elementPrefix)
	w.str("versionInfo", orNothing(p.Version))
	w.some("packageFileName", p.FileName)
	w.str("supplier", supplied(p.Supplier))
	if strings.Contains(p.Originator, ": ") {
		w.str("originator", p.Originator)
	}
	w.str("downloadLocation", orNothing(p.Download))
	w.key("filesAnalyzed")
	w.b.WriteString(strconv.FormatBool(p.Verification != ""))
	if p.Verification != "" {
		w.object("packageVerificationCode", func() { w.str("packageVerificationCodeValue", p.Verification) })
	}
	sums := checksums(p.Digests)
	w.list("checksums", len(sums), func(i int) { w.checksum(string(sums[i].Algorithm), sums[i].Value) })
	w.some("sourceInfo", p.Source)
	w.str("licenseConcluded", NoAssertion)
	if p.Verification != "" {
		w.words("licenseInfoFromFiles", NoAssertion)
	}
	w.str("licenseDeclared", orNothing(p.Licence))
	w.str("copyrightText", NoAssertion)
	w.some("comment", p.Comment)
	refs := p.references()
	w.list("externalRefs", len(refs), func(i int) {
		w.str("referenceCategory", refs[i][0])
		w.str("referenceType", refs[i][1])
		w.str("referenceLocator", refs[i][2])
	})
	w.some("primaryPackagePurpose", p.Purpose)
}

// references lists category, type and locator of each external reference.
func (p *Package) references() (list [][3]string) {
	if p.PURL != "" {
		list = append(list, [3]string{"PACKAGE-MANAGER", "purl", p.PURL})
	}
	if p.Sum != "" {
		list = append(list, [3]string{"OTHER", sumReference, p.Sum})
	}
	return list
}

// supplied writes a supplier with its kind, or not at all.
func supplied(s string) string {
	if !strings.Contains(s, ": ") {
		return NoAssertion
	}
	return s
}

func (w *writer) file(f *File) {
	w.str("fileName", f.Name)
	w.id("SPDXID", f.ID, elementPrefix)
	sums := checksums(f.Digests)
	w.list("checksums", len(sums)+1, func(i int) {
		if i == 0 {
			w.checksum("SHA1", f.SHA1)
			return
		}
		w.checksum(string(sums[i-1].Algorithm), sums[i-1].Value)
	})
	w.str("licenseConcluded", NoAssertion)
	w.words("licenseInfoInFiles", orNothing(f.Licence))
	w.str("copyrightText", NoAssertion)
	w.some("comment", f.Comment)
}

func (w *writer) relationship(r *Relationship) {
	w.either("spdxElementId", r.From)
	w.either("relatedSpdxElement", r.To)
	w.str("relationshipType", r.Type)
	w.some("comment", r.Comment)
}

func (w *writer) checksum(algorithm, value string) {
	w.str("algorithm", algorithm)
	w.str("checksumValue", value)
}

// either writes the identifier of an element of this document or of another
// one, or NOASSERTION.
func (w *writer) either(key, id string) {
	document, element, found := strings.Cut(id, ":")
	switch {
	case id == NoAssertion || id == none:
		w.str(key, id)
	case found:
		w.check(document, documentPrefix)
		w.check(element, elementPrefix)
		w.str(key, id)
	default:
		w.id(key, id, elementPrefix)
	}
}

func (w *writer) id(key, id, prefix string) {
	w.check(id, prefix)
	w.str(key, id)
}

func (w *writer) check(id, prefix string) {
	if !strings.HasPrefix(id, prefix) && w.err == nil {
		w.err = fmt.Errorf("identifier %q does not begin with %s", id, prefix)
	}
}

// next begins an element of the innermost object or list.
func (w *writer) next() {
	if w.filled {
		w.b.WriteByte(',')
	}
	w.filled = true
	w.b.WriteString(w.indent)
}

// key begins a property; the outermost object has none.
func (w *writer) key(name string) {
	if name == "" {
		return
	}
	w.next()
	w.b.WriteByte('"')
	w.b.WriteString(name)
	w.b.WriteString(`": `)
}

func (w *writer) object(name string, fill func()) {
	w.key(name)
	w.within('{', '}', fill)
}

// within writes the contents of a pair of brackets, with more indentation.
func (w *writer) within(open, shut byte, fill func()) {
	outer := w.indent
	w.b.WriteByte(open)
	w.indent, w.filled = outer+"  ", false
	fill()
	w.indent, w.filled = outer, true
	w.b.WriteString(outer)
	w.b.WriteByte(shut)
}

// list writes a list of objects, or nothing if it is empty.
func (w *writer) list(name string, n int, fill func(i int)) {
	if n == 0 {
		return
	}
	w.key(name)
	w.within('[', ']', func() {
		for i := range n {
			w.next()
			w.within('{', '}', func() { fill(i) })
		}
	})
}

// words writes a list of strings.
func (w *writer) words(name string, list ...string) {
	w.key(name)
	w.within('[', ']', func() {
		for _, text := range list {
			w.next()
			w.quote(text)
		}
	})
}

func (w *writer) str(name, text string) {
	w.key(name)
	w.quote(text)
}

// some writes an optional string.
func (w *writer) some(name, text string) {
	if text != "" {
		w.str(name, text)
	}
}

// quote writes a string. Most need no escapes.
func (w *writer) quote(text string) {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			w.escape(text)
			return
		}
	}
	w.b.WriteByte('"')
	w.b.WriteString(text)
	w.b.WriteByte('"')
}

func (w *writer) escape(text string) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil && w.err == nil {
		w.err = err
	}
	w.b.Write(bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
}
