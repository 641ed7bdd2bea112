package spdx

import (
	"fmt"
	"strconv"
	"strings"
)

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
