package spdx

import (
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Form is the form of a document.
type Form string

// The forms.
const (
	formJSON     Form = "json"
	formTagValue Form = "tag-value"
)

// Report lists everything that is wrong with a document.
type Report struct {
	Form    Form    `json:"form"`
	Version string  `json:"version"`
	Name    string  `json:"name"`
	Faults  []Fault `json:"faults"`
	// More counts the faults that are not listed.
	More int `json:"more,omitempty"`
	// Packages, Files and Relationships count the parsed elements.
	Packages      int `json:"packages"`
	Files         int `json:"files"`
	Relationships int `json:"relationships"`
	// Unknown lists what the document declares as unknown.
	Unknown []string `json:"unknown"`
}

// Validate lists every fault of a document of version 2.2 or 2.3, in either
// form. The document is zero if it could be misread.
func Validate(text string) (Document, Report) {
	var m *model
	var found faults
	form := FormOf(text)
	if form == formTagValue {
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

// FormOf guesses the form of a document: JSON begins with a brace, and
// tag-value does not.
func FormOf(text string) Form {
	head := strings.TrimLeft(strings.TrimPrefix(text[:min(len(text), 4096)], byteOrderMark), " \t\r\n")
	if head == "" || head[0] == '{' || !strings.Contains(head, ":") {
		return formJSON
	}
	return formTagValue
}

// byteOrderMark is what some editors put at the beginning of a UTF-8 file.
const byteOrderMark = "\ufeff"

// Fix is the advice for a person who sees the fault.
func (f Fault) Fix() string {
	if f.Code() == verdict.StatementParse {
		return "generate the document again as " + Version + ", or ask its author to; waybill sbom validate lists every fault"
	}
	return f.Code().Fix()
}

// Code is the code of a refusal for this fault.
func (f Fault) Code() verdict.Code {
	switch {
	case f.Rule == ruleLimit:
		return verdict.Limit
	case f.Rule.graph():
		return verdict.SBOMGraph
	case f.Rule == ruleFiles:
		return verdict.SBOMIncomplete
	case f.Rule.judged():
		return verdict.StatementParse
	}
	return verdict.SBOMInvalid
}
