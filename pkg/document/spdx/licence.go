package spdx

import (
	"cmp"
	_ "embed" // for the list of licences
	"strings"
)

const licencePrefix = "LicenseRef-"

// maxLicence is the length of the longest licence expression in bytes.
const maxLicence = 16 << 10

// licence checks a licence expression. Most elements have the same one as the
// element before.
func (r *reader) licence(name, val string) {
	if val == NoAssertion || val == r.expression {
		return
	}
	e := parseLicence(val)
	switch {
	case e.fault != "":
		r.fault(ruleLicence, "%s %s: %s", name, quote(val), e.fault)
	case e.unlisted != "":
		r.fault(ruleListed, "%s %s: %s is neither on the SPDX licence list, as it was on %s, nor a LicenseRef-", name, quote(val), quote(e.unlisted), listed)
	default:
		r.expression = val
	}
}

// IsLicence reports whether s is an SPDX licence expression (annex D) of
// references and of licences on the SPDX licence list; or NONE or NOASSERTION.
func IsLicence(s string) bool {
	e := parseLicence(s)
	return e.fault == "" && e.unlisted == ""
}

func parseLicence(s string) expression {
	switch {
	case s == NoAssertion || s == none:
		return expression{}
	case len(s) > maxLicence:
		return expression{fault: "too long for an expression"}
	}
	e := expression{words: strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ").Replace(s))}
	e.either()
	if len(e.words) > 0 {
		e.fail("no operator before " + quote(e.words[0]))
	}
	return e
}

// expression is the rest to be parsed.
type expression struct {
	words []string
	depth int
	fault string

	unlisted string // the first licence or exception that is not on a list
}

func (e *expression) peek() string {
	if len(e.words) == 0 || e.fault != "" {
		return ""
	}
	return e.words[0]
}

func (e *expression) take() string {
	w := e.peek()
	if w != "" {
		e.words = e.words[1:]
	}
	return w
}

// operator takes an operator, in all upper or all lower case.
func (e *expression) operator(op string) bool {
	if w := e.peek(); w != op && w != strings.ToLower(op) {
		return false
	}
	e.take()
	return true
}

func (e *expression) fail(reason string) {
	e.fault = cmp.Or(e.fault, reason)
}

func (e *expression) either() {
	for e.both(); e.operator("OR"); {
		e.both()
	}
}

func (e *expression) both() {
	for e.one(); e.operator("AND"); {
		e.one()
	}
}

// maxDepth is the deepest nesting of parentheses.
const maxDepth = 64

func (e *expression) one() {
	if e.depth++; e.depth > maxDepth {
		e.fail("nested too deeply")
	}
	defer func() { e.depth-- }()
	w := e.take()
	switch {
	case w == "":
		e.fail("a licence is missing")
	case w == "(":
		e.either()
		if e.take() != ")" {
			e.fail("a parenthesis is not closed")
		}
		return
	case w == ")" || !isLicenceID(w):
		e.fail(quote(w) + " is not a licence")
	case !isReference(w) && !onList(licenceList, w) && !onList(licenceList, strings.TrimSuffix(w, "+")):
		e.unlisted = cmp.Or(e.unlisted, w)
	}
	if e.operator("WITH") {
		switch w := e.take(); {
		case !isID(w, "", ""):
			e.fail(quote(w) + " is not an exception")
		case !onList(exceptionList, w):
			e.unlisted = cmp.Or(e.unlisted, w)
		}
	}
}

// isReference reports whether a licence is explained in this document, or in
// another one.
func isReference(w string) bool {
	return strings.HasPrefix(w, licencePrefix) || strings.Contains(w, ":")
}

// isLicenceID checks the grammar of a licence: an identifier, one with "+", or
// a reference into this or another document.
func isLicenceID(w string) bool {
	if strings.EqualFold(w, "AND") || strings.EqualFold(w, "OR") || strings.EqualFold(w, "WITH") {
		return false
	}
	if document, rest, found := strings.Cut(w, ":"); found {
		return isID(document, documentPrefix, "+") && isID(rest, licencePrefix, "")
	}
	return isID(strings.TrimSuffix(w, "+"), "", "")
}

// listed is the date of the list of licences: see list/README.md.
const listed = "2026-04-28"

//go:embed list/licences.txt
var licenceList string

//go:embed list/exceptions.txt
var exceptionList string

// onList reports whether a list of lines, sorted ignoring case, contains an
// identifier. Annex D: identifiers match in any case.
func onList(list, id string) bool {
	id = strings.ToLower(id)
	for list != "" {
		// The line around the middle.
		begin := strings.LastIndexByte(list[:len(list)/2], '\n') + 1
		end := begin + strings.IndexByte(list[begin:], '\n')
		switch strings.Compare(id, strings.ToLower(list[begin:end])) {
		case 0:
			return true
		case -1:
			list = list[:begin]
		default:
			list = list[end+1:]
		}
	}
	return false
}
