package signoff

import (
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
)

// directive is a line of a template that says from which stage on the section above it
// is required.
type directive struct {
	line     int
	required bool
	stage    Stage  // the first stage that requires it
	fault    string // what is wrong with its form, "" if nothing
}

var directiveLine = pattern.Lazy(`^\s*<!--+\s*DIRECTIVE\s*:?(.*)$`)

// parseDirective reads a line that begins as a directive. A directive is always one line,
// even if its end is malformed. rest is the text after it.
func parseDirective(text string) (d directive, rest string, is bool) {
	m := directiveLine().FindStringSubmatch(text)
	if m == nil {
		return directive{}, text, false
	}
	body, rest, closed := strings.Cut(m[1], "-->")
	if !closed {
		if body, rest, closed = strings.Cut(m[1], ">"); closed {
			d.fault = `ends with ">" instead of "-->"`
		} else {
			d.fault = `no "-->"`
		}
	}
	d.read(body)
	return d, rest, true
}

// read reads the content of a directive. Faults are recorded; if a value cannot be read,
// the section counts as required.
func (d *directive) read(body string) {
	d.required, d.stage = true, Alpha
	said := map[string]bool{}
	for part := range strings.SplitSeq(body, ",") {
		key, value, _ := strings.Cut(part, ":")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch {
		case said[key]:
			d.blame(quoted(key) + " is given twice")
		case key == "required" && (value == "true" || value == "false"):
			d.required = value == "true"
		case key == "stage" && Stage(value).known():
			d.stage = Stage(value)
		default:
			d.blame(quoted(strings.TrimSpace(part)) + " is not valid, want required: true or false, and stage: alpha, beta or stable")
		}
		said[key] = true
	}
	switch {
	case !said["required"]:
		d.blame("required is missing")
	case !d.required && said["stage"]:
		d.blame("a stage is given, but the section is not required")
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
