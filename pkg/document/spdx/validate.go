package spdx

import (
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Form is how a document is written.
type Form string

// The forms.
const (
	JSON     Form = "json"
	TagValue Form = "tag-value"
)

// Report is everything that is wrong with a document.
type Report struct {
	Form    Form    `json:"form"`
	Version string  `json:"version"`
	Name    string  `json:"name"`
	Faults  []Fault `json:"faults"`
	// More counts the faults past those that are listed.
	More int `json:"more,omitempty"`
	// Packages, Files and Relationships count what was read.
	Packages      int `json:"packages"`
	Files         int `json:"files"`
	Relationships int `json:"relationships"`
	// Unknown lists what the document says it does not know.
	Unknown []string `json:"unknown"`
}

// Validate lists every fault of a document of version 2.2 or 2.3, in either
// form. The document is zero if it could be misread.
func Validate(text string) (Document, Report) {
	var m *model
	var found faults
	form := FormOf(text)
	if form == TagValue {
		m, found = readLines(text)
		if strings.HasPrefix(text, byteOrderMark) {
			found = orElse(text, found)
		}
	} else {
		m, found = read(text)
		found = orElse(text, found)
	}
	d, err := accept(m, found)
	if err != nil {
		d = Document{}
	} else {
		d.raw = text
	}
	return d, Report{
		Form: form, Version: m.version, Name: m.name, Faults: found.list, More: found.more,
		Packages: len(m.packages), Files: len(m.files), Relationships: len(m.relationships), Unknown: d.Unknown(),
	}
}

// FormOf guesses the form of a document: JSON begins with a brace, and lines
// do not.
func FormOf(text string) Form {
	head := strings.TrimLeft(strings.TrimPrefix(text[:min(len(text), 4096)], byteOrderMark), " \t\r\n")
	if head == "" || head[0] == '{' || !strings.Contains(head, ":") {
		return JSON
	}
	return TagValue
}

// byteOrderMark is what some editors begin a file of UTF-8 with.
const byteOrderMark = "\ufeff"

// Fix is the next act for whoever meets the fault.
func (f Fault) Fix() string {
	if f.Code() == verdict.StatementParse {
		return "write the document again as " + Version + ", or have its author do so; waybill sbom validate lists every fault"
	}
	return f.Code().Fix()
}

// Code is the code of the refusal that a fault amounts to.
func (f Fault) Code() verdict.Code {
	switch {
	case f.Rule == RuleLimit:
		return verdict.Limit
	case f.Rule.graph():
		return verdict.SBOMGraph
	case f.Rule == RuleFiles:
		return verdict.SBOMIncomplete
	case f.Rule.judged():
		return verdict.StatementParse
	}
	return verdict.SBOMInvalid
}
