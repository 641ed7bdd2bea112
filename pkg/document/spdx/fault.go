package spdx

import (
	"fmt"
	"strconv"
	"strings"
)

// Rule says which kind of rule a document breaks.
type Rule string

// The rules, from form to meaning.
const (
	RuleForm         Rule = "form"              // it can not be read, or be read in two ways
	RuleType         Rule = "type"              // a value of another type than the schema says
	RuleSchema       Rule = "schema"            // the schema demands otherwise
	RuleProperty     Rule = "property"          // a property that the schema does not have
	RuleHead         Rule = "head"              // what the document says of itself
	RuleIdentifier   Rule = "identifier"        // identifiers are of the grammar, and unique
	RuleRelationship Rule = "relationship"      // relationships lead somewhere, and contain no circle
	RuleExternal     Rule = "external document" // other documents can be found and checked
	RuleChecksum     Rule = "checksum"          // checksums are such, one of each kind
	RuleReference    Rule = "reference"         // references of packages are of the grammar of their kind
	RuleFiles        Rule = "files"             // the roll-up of the files is right
	RuleLicence      Rule = "licence"           // licence expressions parse
	RuleListed       Rule = "licence list"      // licences are on the list of SPDX, or explained
	RuleNTIA         Rule = "minimum elements"  // NTIA: The Minimum Elements for an SBOM
	RuleSubject      Rule = "subject"           // one document describes one thing
	RuleName         Rule = "name"              // names show as themselves
	RuleLimit        Rule = "limit"             // more than is read
)

// judged reports whether [Parse] refuses a document for this rule. The others
// say what the document lacks, not that it could be misread.
func (r Rule) judged() bool {
	switch r {
	case RuleProperty, RuleReference, RuleFiles, RuleLicence, RuleListed, RuleNTIA, RuleSubject, RuleName:
		return false
	}
	return true
}

// graph reports whether the rule is one of how elements hang together.
func (r Rule) graph() bool {
	return r == RuleIdentifier || r == RuleRelationship || r == RuleLimit
}

// Fault is one way in which a document breaks a rule.
type Fault struct {
	Rule    Rule   `json:"rule"`
	Place   string `json:"place"` // as in packages[3].checksums[0]; "" is the document
	Message string `json:"message"`
}

// Error says rule, place and reason.
func (f Fault) Error() string {
	if f.Place == "" {
		return f.Message
	}
	return f.Place + ": " + f.Message
}

// maxFaults is how many faults are listed; the rest is counted.
const maxFaults = 1000

// faults collects.
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
	index int // -1 if the property is no array, or not within an element
}

// trail is where a reader is.
type trail []step

func (t *trail) at(name string) { *t = append(*t, step{name: name, index: -1}) }

func (t *trail) element(n int) { (*t)[len(*t)-1].index = n }

func (t *trail) leave() { *t = (*t)[:len(*t)-1] }

// where is the place in words.
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
