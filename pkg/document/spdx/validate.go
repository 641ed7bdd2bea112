package spdx

import (
	"slices"
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
	// Minimum lists NTIA's minimum elements of 2021 that are missing, and
	// MoreMinimum counts those not listed: the specification does not require
	// them.
	Minimum     []Fault `json:"minimum,omitempty"`
	MoreMinimum int     `json:"moreMinimum,omitempty"`
	// Packages, Files and Relationships count the parsed elements.
	Packages      int `json:"packages"`
	Files         int `json:"files"`
	Relationships int `json:"relationships"`
	// Unknown lists what the document declares as unknown.
	Unknown []string `json:"unknown"`

	misread error
}

// Err says why the document could be misread; nil if it could not.
func (r Report) Err() error { return r.misread }

// Standard lists the faults that the specification itself forbids. The others
// break rules for documents of a release: a document describes exactly one
// thing, nothing contains itself, and all analyzed files are listed.
func (r Report) Standard() []Fault {
	return slices.DeleteFunc(slices.Clone(r.Faults), func(f Fault) bool { return f.Rule.ours() })
}

// Validate lists every fault of a document of version 2.2 or 2.3, in either
// form. The document is zero if it could be misread. A caller that relies on its
// graph or its lists of files must also refuse a document with other faults.
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
	report := Report{
		Form: form, Version: m.version, Name: m.name, Faults: found.list, More: found.more, Minimum: m.least.list, MoreMinimum: m.least.more,
		Packages: len(m.packages), Files: len(m.files), Relationships: len(m.relationships),
	}
	d, err := accept(m, faults{report.Standard(), report.More})
	if err != nil {
		d, report.misread = Document{}, parseError(err)
	} else {
		d.raw = text
	}
	report.Unknown = d.Unknown()
	return d, report
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
	case f.Rule == ruleFiles || f.Rule == ruleCode:
		return verdict.SBOMIncomplete
	case f.Rule.judged():
		return verdict.StatementParse
	}
	return verdict.SBOMInvalid
}
