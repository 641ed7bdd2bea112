package spdx

import (
	"fmt"
	"slices"
	"strconv"
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

// Rule is the kind of rule that a document breaks.
type Rule string

// The rules, from form to meaning.
const (
	ruleForm         Rule = "form"              // not readable, or with two readings
	ruleType         Rule = "type"              // a value of another type than in the schema
	ruleSchema       Rule = "schema"            // other violations of the schema
	ruleProperty     Rule = "property"          // a property that is not in the schema
	ruleHead         Rule = "head"              // information about the document itself
	ruleIdentifier   Rule = "identifier"        // identifiers follow the grammar, and are unique
	ruleRelationship Rule = "relationship"      // both ends of relationships exist, and nothing contains itself
	ruleExternal     Rule = "external document" // other documents can be found and checked
	ruleChecksum     Rule = "checksum"          // checksums are valid, one of each kind
	ruleReference    Rule = "reference"         // references of packages follow the grammar of their kind
	ruleFiles        Rule = "files"             // there is a verification code, of the listed files
	ruleLicence      Rule = "licence"           // licence expressions parse
	ruleListed       Rule = "licence list"      // licences are on the SPDX list, or explained
	ruleNTIA         Rule = "minimum elements"  // NTIA: The Minimum Elements for an SBOM
	ruleSubject      Rule = "subject"           // one document describes one thing
	ruleName         Rule = "name"              // names contain no hidden characters
	ruleContainment  Rule = "containment"       // nothing contains itself
	ruleDescribed    Rule = "described"         // the document describes something
	ruleCode         Rule = "verification code" // a verification code is well-formed, and of analyzed files
	ruleLimit        Rule = "limit"             // a limit of this package
)

// judged reports whether [Parse] refuses a document for this rule. The other
// rules are about missing information, not about a document that could be
// misread.
func (r Rule) judged() bool {
	switch r {
	case ruleProperty, ruleReference, ruleFiles, ruleLicence, ruleListed, ruleNTIA, ruleSubject, ruleName, ruleCode:
		return false
	}
	return true
}

// graph reports whether the rule is about connections between elements.
func (r Rule) graph() bool {
	return r == ruleIdentifier || r == ruleRelationship || r == ruleContainment || r == ruleDescribed || r == ruleLimit
}

// ours reports whether the rule is one for documents of a release, and not one
// of the specification: its own examples break each of these.
func (r Rule) ours() bool {
	return r == ruleSubject || r == ruleContainment || r == ruleDescribed || r == ruleFiles
}

// Fault is a violation of a rule.
type Fault struct {
	Rule    Rule   `json:"rule"`
	Place   string `json:"place"` // such as packages[3].checksums[0]; "" is the document
	Message string `json:"message"`
}

// Error formats rule, place and reason.
func (f Fault) Error() string {
	if f.Place == "" {
		return f.Message
	}
	return f.Place + ": " + f.Message
}

// maxFaults is the number of faults that are listed; the others are counted.
const maxFaults = 1000

type faults struct {
	list []Fault
	more int
}

func (f *faults) add(rule Rule, place, format string, args ...any) {
	if len(f.list) == maxFaults {
		f.more++
		return
	}
	f.list = append(f.list, Fault{Rule: rule, Place: place, Message: fmt.Sprintf(format, args...)})
}

// step is one step into a document: a property, or an element of an array.
type step struct {
	name  string
	index int // -1 if the property is not an array, or not within an element
}

// trail is the current position of a reader.
type trail []step

func (t *trail) at(name string) { *t = append(*t, step{name: name, index: -1}) }

func (t *trail) element(n int) { (*t)[len(*t)-1].index = n }

func (t *trail) leave() { *t = (*t)[:len(*t)-1] }

// where formats the position.
func (t trail) where() string {
	var b strings.Builder
	for i, s := range t {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(s.name)
		if s.index >= 0 {
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		}
	}
	return b.String()
}
