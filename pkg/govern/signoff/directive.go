package signoff

import (
	"regexp"
	"strings"
)

// directive is a line of a template that says from when on the section above
// it is required.
type directive struct {
	line     int
	required bool
	stage    Stage  // from which on, where it is required
	fault    string // what is wrong with its form, "" if nothing
}

var directiveLine = regexp.MustCompile(`^\s*<!--+\s*DIRECTIVE\s*:?(.*)$`)

// parseDirective reads a line that begins as a directive. It is one line,
// whatever its end looks like: the text below is never part of it. What stands
// behind it is handed back.
func parseDirective(text string) (d directive, rest string, is bool) {
	m := directiveLine.FindStringSubmatch(text)
	if m == nil {
		return directive{}, text, false
	}
	body, rest, closed := strings.Cut(m[1], "-->")
	if !closed {
		if body, rest, closed = strings.Cut(m[1], ">"); closed {
			d.fault = `it ends with ">" instead of "-->"`
		} else {
			d.fault = `it has no "-->"`
		}
	}
	d.read(body)
	return d, rest, true
}

// read reads what a directive says. A fault is kept, and what cannot be read
// asks for the most: the section is required.
func (d *directive) read(body string) {
	d.required, d.stage = true, Alpha
	said := map[string]bool{}
	for part := range strings.SplitSeq(body, ",") {
		key, value, _ := strings.Cut(part, ":")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch {
		case said[key]:
			d.blame("it says " + quoted(key) + " twice")
		case key == "required" && (value == "true" || value == "false"):
			d.required = value == "true"
		case key == "stage" && Stage(value).known():
			d.stage = Stage(value)
		default:
			d.blame("it says " + quoted(strings.TrimSpace(part)) + ", want required: true or false, and stage: alpha, beta or stable")
		}
		said[key] = true
	}
	switch {
	case !said["required"]:
		d.blame("it does not say whether the section is required")
	case !d.required && said["stage"]:
		d.blame("it names a stage from which on the section is not required")
	}
	if !d.required {
		d.stage = ""
	}
}

func (d *directive) blame(fault string) {
	if d.fault != "" {
		d.fault += "; "
	}
	d.fault += fault
}
