// Package format recognises the evidence that other programs write, and splits
// it into Sigstore bundles for pkg/judge/verify. One table, formats.json, names
// each form, says how it is recognised, and whether its statements are read, or
// it is refused with the reason and the next act. docs/formats.md shows it.
//
// Nothing is verified here. A text that no row recognises is one bundle: the
// verifier says what is wrong with it. Values are copied into a bundle as they
// are written, so that the verifier's rules about them hold.
//
// Other projects should not import this package: it changes without notice.
package format

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

//go:embed formats.json
var table []byte

// Format is one row of the table.
type Format struct {
	Name string
	// Is lists alternatives of conditions that must all hold: "path" exists,
	// "!path" does not, "path=a|b" is one of these texts, "path^=a|b" begins so.
	Is     []string
	Starts []byte // of what is no JSON
	// Read is "statement", "lines", or the path to the entries of a list. If it
	// is empty, the form is refused because of Why, with the act Next; Print
	// says that waybill inspect shows it anyway.
	Read, Why, Next string
	Print           bool
}

// Of is the format of a text; the zero Format if no row recognises it.
func Of(raw []byte) Format {
	var rows []Format
	_ = json.Unmarshal(table, &rows) // a test reads every row
	o := look(raw)
	return slice.First(rows, func(f Format) bool {
		return len(f.Starts) > 0 && bytes.HasPrefix(raw, f.Starts) || slices.ContainsFunc(f.Is, o.meets)
	})
}

// IsList reports whether the form is one for several statements.
func (f Format) IsList() bool { return f.Read != "statement" && f.Read != "" }

// Refuse says why a format is not verified; nil if it is.
func (f Format) Refuse() error {
	if f.Name == "" || f.Read != "" {
		return nil
	}
	return verdict.Refuse(verdict.MaterialKind, "evidence", "%s: %s", f.Name, f.Why).Advise(f.Next)
}

// The limits of recognition; a larger payload is left to the verifier.
const (
	maxText   = 64 << 20
	maxInside = 1 << 20 // of a payload that is decoded
	maxListed = 1024    // members of one object, elements of one list
)

// object has the members of an object, or the elements of a list by position.
type object map[string]json.RawMessage

// look returns the object that a text begins with, and adds two members: the
// "statement" in an envelope, and the "next line" if another object follows.
func look(raw []byte) object {
	o, s := members(raw)
	delete(o, "statement")
	payload := o.text("dsseEnvelope.payload") + o.text("payload")
	switch {
	case s == nil || o["0"] != nil:
		return nil
	case s.Peek() == '{':
		o["next line"] = raw[s.Offset():]
	case o["predicateType"] != nil && payload == "":
		o["statement"] = raw
	case len(payload) <= maxInside:
		o["statement"], _ = base64.StdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/").Replace(payload))
	}
	return o
}

// members reads an object or a list without copies, and returns the scanner
// behind it: nil for another value, and where there are too many members.
func members(raw []byte) (object, *strictjson.Scanner[[]byte]) {
	o, s := object{}, strictjson.NewScanner(raw, strictjson.MaxSize(maxText))
	opened := byte('[')
	if s.Peek() == '{' {
		opened = '{'
	}
	s.Open(opened)
	for s.Next(len(o) == 0, opened+2) { // in ASCII, each bracket is closed by the second after it
		key := strconv.Itoa(len(o))
		if opened == '{' {
			key = string(s.Key())
		}
		s.Peek()
		from := s.Offset()
		if s.Skip(); s.Failed() || o[key] != nil {
			return nil, nil
		}
		if o[key] = raw[from:s.Offset()]; len(o) > maxListed {
			return o, nil
		}
	}
	if s.Failed() {
		return nil, nil
	}
	return o, s
}

// at returns the values at a path of keys and positions; * stands for every
// position. A value that is missing is nil.
func (o object) at(path string) (found []json.RawMessage) {
	key, rest, more := strings.Cut(path, ".")
	if key == "*" {
		for i := range len(o) {
			found = append(found, o.at(strings.Replace(path, "*", strconv.Itoa(i), 1))...)
		}
		return found
	}
	if value := o[key]; value == nil || !more {
		return append(found, value)
	}
	inner, _ := members(o[key])
	return inner.at(rest)
}

// text is the JSON text at a path; empty for another value.
func (o object) text(path string) (text string) {
	_ = json.Unmarshal(o.at(path)[0], &text)
	return text
}

// meets reports whether a document meets one alternative of a row.
func (o object) meets(alternative string) bool {
	for condition := range strings.SplitSeq(alternative, " & ") {
		path, want, compared := strings.Cut(condition, "=")
		path, begins := strings.CutSuffix(path, "^")
		path, absent := strings.CutPrefix(path, "!")
		is := o.at(path)[0] != nil && (!compared || slices.ContainsFunc(strings.Split(want, "|"), func(w string) bool {
			text := o.text(path)
			return text == w || begins && strings.HasPrefix(text, w)
		}))
		if is == absent {
			return false
		}
	}
	return true
}
