package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxFields is how many fields of one document are kept; the rest is counted.
const maxFields = 20_000

// flatten lists every value of a JSON text with its path, in the order of the
// text.
func flatten(raw []byte) ([]Field, error) {
	f := &flattener{decoder: json.NewDecoder(bytes.NewReader(raw))}
	f.decoder.UseNumber()
	if err := f.value(""); err != nil {
		return nil, verdict.Wrap(verdict.StatementParse, "document", err)
	}
	return f.list(), nil
}

type flattener struct {
	decoder *json.Decoder
	fields  []Field
	left    int
}

func (f *flattener) add(path, value string) {
	if len(f.fields) == maxFields {
		f.left++
		return
	}
	f.fields = append(f.fields, Field{path, value})
}

func (f *flattener) list() []Field {
	if f.left > 0 {
		f.fields = append(f.fields, Field{"left out", fmt.Sprintf("%d more values", f.left)})
	}
	return f.fields
}

func (f *flattener) value(path string) error {
	token, err := f.decoder.Token()
	if err != nil {
		return err
	}
	switch t := token.(type) {
	case json.Delim:
		if err := f.inside(path, t == '['); err != nil {
			return err
		}
		_, err = f.decoder.Token() // the closing bracket
		return err
	case nil:
		f.add(path, "null")
	default:
		f.add(path, fmt.Sprint(t))
	}
	return nil
}

func (f *flattener) inside(path string, list bool) error {
	i := 0
	for ; f.decoder.More(); i++ {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !list {
			key, err := f.decoder.Token()
			if err != nil {
				return err
			}
			at = strings.TrimPrefix(fmt.Sprintf("%s.%s", path, key), ".")
		}
		if err := f.value(at); err != nil {
			return err
		}
	}
	if i == 0 && path != "" {
		f.add(path, "nothing")
	}
	return nil
}

// flattenYAML lists every value of a YAML document with its path. A strict
// reader has accepted the document, so it has no aliases.
func flattenYAML(raw []byte) ([]Field, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(raw, &document); err != nil {
		return nil, verdict.Wrap(verdict.ConfigParse, "document", err)
	}
	f := &flattener{}
	for _, n := range document.Content {
		f.node("", n)
	}
	return f.list(), nil
}

func (f *flattener) node(path string, n *yaml.Node) {
	switch {
	case n.Kind == yaml.ScalarNode:
		f.add(path, n.Value)
	case len(n.Content) == 0:
		f.add(path, "nothing")
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			f.node(strings.TrimPrefix(path+"."+n.Content[i].Value, "."), n.Content[i+1])
		}
	default:
		for i, c := range n.Content {
			f.node(fmt.Sprintf("%s[%d]", path, i), c)
		}
	}
}

// digestsOf prints a digest set in a fixed order; it is never empty.
func digestsOf(set map[string]string) []string {
	words := slice.Map(slices.Sorted(maps.Keys(set)), func(algorithm string) string { return algorithm + ":" + set[algorithm] })
	return append(words, "without a digest")[:max(1, len(words))]
}

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
