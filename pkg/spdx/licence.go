package spdx

import "strings"

const licencePrefix = "LicenseRef-"

// maxLicence is the longest licence expression in bytes.
const maxLicence = 16 << 10

// licence judges a licence expression of the document.
func (r *reader) licence(name, val string) {
	if reason := licenceFault(val); reason != "" {
		r.fault(RuleLicence, "%s %s: %s", name, quote(val), reason)
	}
}

// IsLicence reports whether s is an SPDX licence expression (annex D), NONE or
// NOASSERTION. Whether a licence of that name exists is not looked up.
func IsLicence(s string) bool { return licenceFault(s) == "" }

func licenceFault(s string) string {
	switch {
	case s == NoAssertion || s == none || isLicenceID(s):
		return ""
	case len(s) > maxLicence:
		return "too long for an expression"
	}
	e := &expression{words: expressionWords(s)}
	e.either()
	switch {
	case e.fault != "":
		return e.fault
	case len(e.words) > 0:
		return "no operator before " + quote(e.words[0])
	}
	return ""
}

// expressionWords splits at spaces, and around parentheses.
func expressionWords(s string) []string {
	return strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ").Replace(s))
}

// expression is what is left to parse.
type expression struct {
	words []string
	depth int
	fault string
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

// operator takes an operator, which is all upper or all lower case.
func (e *expression) operator(op string) bool {
	if w := e.peek(); w != op && w != strings.ToLower(op) {
		return false
	}
	e.take()
	return true
}

func (e *expression) fail(reason string) {
	if e.fault == "" {
		e.fault = reason
	}
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
		e.fail(quote(w) + " is no licence")
	}
	if e.operator("WITH") {
		if w := e.take(); !isID(w, "", "") {
			e.fail(quote(w) + " is no exception")
		}
	}
}

// isLicenceID is the grammar of a licence: an identifier, one with "+", or a
// reference into this or another document.
func isLicenceID(w string) bool {
	switch strings.ToUpper(w) {
	case "AND", "OR", "WITH":
		return false
	}
	if document, rest, found := strings.Cut(w, ":"); found {
		return isID(document, documentPrefix, "+") && isID(rest, licencePrefix, "")
	}
	return isID(strings.TrimSuffix(w, "+"), "", "")
}
