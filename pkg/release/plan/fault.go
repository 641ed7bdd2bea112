package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxFaults bounds how many faults of one file are told.
const maxFaults = 20

// Fault is one thing that is wrong with release.yaml or its lock, and where.
type Fault struct {
	Line    int    // counted from 1
	Column  int    // in characters, counted from 1
	Path    string // as in steps[0].outputs[1].name; empty for the whole file
	Message string // what is wrong, and what to write instead
}

// Error names place, path and message.
func (f Fault) Error() string {
	if f.Path == "" {
		return fmt.Sprintf("%d:%d: %s", f.Line, f.Column, f.Message)
	}
	return fmt.Sprintf("%d:%d: %s: %s", f.Line, f.Column, f.Path, f.Message)
}

// Faults are all the faults of one file, in the order of its text.
type Faults []Fault

// Error lists them, a line each.
func (f Faults) Error() string {
	lines := make([]string, 0, len(f))
	for i, fault := range f {
		if i == maxFaults {
			lines = append(lines, fmt.Sprintf("and %d more", len(f)-i))
			break
		}
		lines = append(lines, fault.Error())
	}
	return strings.Join(lines, "\n")
}

// where is a place in the text.
type where struct {
	line, column int
	path         string
}

// fault makes the fault of a place.
func (w where) fault(format string, args ...any) Fault {
	return Fault{Line: max(w.line, 1), Column: max(w.column, 1), Path: w.path, Message: fmt.Sprintf(format, args...)}
}

// refusal is the one error for a file with faults; nil for none.
func refusal(file string, faults Faults) error {
	if len(faults) == 0 {
		return nil
	}
	slices.SortStableFunc(faults, func(a, b Fault) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return verdict.Wrap(verdict.ConfigParse, file, faults)
}

// faultOf is the fault that a reader of YAML found.
func faultOf(err error, path string) Fault {
	var e *strictyaml.Error
	if errors.As(err, &e) {
		return Fault{Line: e.Line, Column: e.Column, Path: path, Message: e.Message + " (" + e.Code + ")"}
	}
	return Fault{Line: 1, Column: 1, Path: path, Message: err.Error()}
}
