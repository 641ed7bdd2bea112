package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxFaults is how many faults of one file are reported.
const maxFaults = 20

// Fault is one error in release.yaml or its lock, with its position.
type Fault struct {
	Line    int    // from 1
	Column  int    // in characters, from 1
	Path    string // such as steps[0].outputs[1].name; empty for the whole file
	Message string // what is wrong, and what to write instead
}

// Error prints position, path and message.
func (f Fault) Error() string {
	if f.Path == "" {
		return fmt.Sprintf("%d:%d: %s", f.Line, f.Column, f.Message)
	}
	return fmt.Sprintf("%d:%d: %s: %s", f.Line, f.Column, f.Path, f.Message)
}

// Faults are all faults of one file, in the order of its text.
type Faults []Fault

// Error prints one fault on each line.
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

// where is a position in the text.
type where struct {
	line, column int
	path         string
}

func (w where) fault(format string, args ...any) Fault {
	return Fault{Line: max(w.line, 1), Column: max(w.column, 1), Path: w.path, Message: fmt.Sprintf(format, args...)}
}

// refusal is the error for a file with faults; nil without faults.
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

// faultOf converts an error of the YAML reader to a fault.
func faultOf(err error, path string) Fault {
	if e, is := errors.AsType[*strictyaml.Error](err); is {
		return Fault{Line: e.Line, Column: e.Column, Path: path, Message: e.Message + " (" + e.Code + ")"}
	}
	return Fault{Line: 1, Column: 1, Path: path, Message: err.Error()}
}
