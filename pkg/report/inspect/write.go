package inspect

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// inspectSchema names the JSON form of a Document.
const inspectSchema = "waybill/inspect/v1"

// Format is an output format.
type Format string

// The formats.
const (
	Text Format = "text"
	JSON Format = "json"
)

// heading comes before all output for people.
const heading = "PARSED, NOT VERIFIED: anyone can have written this"

// proven is the heading of a contradiction that was verified. A checkpoint has no time.
const proven = "VERIFIED: a log of the trust root signed both checkpoints, which proves a LOG_FORK; of a LOG_ROLLBACK, who saw it says that the second came last"

// shownFields is how many fields of one document are shown as text.
const shownFields = 200

// output is the JSON form.
type output struct {
	Schema   string `json:"schema"`
	Verified bool   `json:"verified"` // only of a contradiction
	Document
	Lint []provenance.Note `json:"lint,omitempty"`
}

// Write prints a document with notes.
func Write(w io.Writer, f Format, d Document, notes ...provenance.Note) error {
	switch f {
	case JSON:
		return render.WriteJSON(w, output{Schema: inspectSchema, Verified: d.verified, Document: d, Lint: notes})
	case Text:
		p := &page{}
		p.line(0, "%s", map[bool]string{true: proven, false: heading}[d.verified])
		p.document(d, 0)
		for _, n := range notes {
			p.line(0, "%s", render.Safe(n.String()))
		}
		_, err := p.WriteTo(w)
		return err
	}
	return verdict.Refuse(verdict.Usage, "--output", "%q: want %s or %s", f, Text, JSON)
}

// page is the text of a document.
type page struct{ bytes.Buffer }

func (p *page) line(depth int, format string, args ...any) {
	fmt.Fprintf(p, strings.Repeat("  ", depth)+format+"\n", args...)
}

func (p *page) document(d Document, depth int) {
	p.line(0, "")
	if d.Digest.IsZero() {
		p.line(depth, "%s", d.Kind)
	} else {
		p.line(depth, "%s  %s", d.Kind, d.Digest)
	}
	shown := d.Fields[:min(shownFields, len(d.Fields))]
	width := 0
	for _, f := range shown {
		width = min(max(width, len(f.Name)), 32)
	}
	for _, f := range shown {
		p.field(depth+1, width, f)
	}
	if more := len(d.Fields) - len(shown); more > 0 {
		p.line(depth+1, "and %d more; --output json lists all", more)
	}
	for _, part := range d.Parts {
		p.document(part, depth+1)
	}
}

// shownLines bounds what a page shows of one value.
const shownLines = 60

// field prints a field. Each line of a value that has several begins with a bar,
// so that none can pass for another field.
func (p *page) field(depth, width int, f Field) {
	lines := strings.Split(strings.TrimRight(f.Value, "\r\n"), "\n")
	if len(lines) == 1 {
		p.line(depth, "%-*s  %s", width, render.Safe(f.Name), render.Safe(strings.TrimRight(f.Value, "\r\n")))
		return
	}
	name := render.Safe(f.Name)
	for _, line := range lines[:min(shownLines, len(lines))] {
		p.line(depth, "%-*s  | %s", width, name, render.Safe(strings.TrimRight(line, "\r")))
		name = ""
	}
	if more := len(lines) - shownLines; more > 0 {
		p.line(depth, "%-*s  and %d more; --output json has all", width, "", more)
	}
}
