// Package attack attacks the isolation of build steps on this machine: each row
// of table.txt is tried as an ordinary process, the control, and then as a step.
//
//	checks := attack.Builder{Isolation: sandbox.Examine(ctx), Run: sandbox.Run}.Try(ctx)
//
// A program that uses it calls [Serve] first in main: it may be such a step.
//
// What counts is seen from outside: a secret among the outputs, a changed file,
// a connection, a process. What a step says is printed, and decides nothing. A
// row whose control does not succeed here is undecided. Targets are made for each
// attempt, small and short-lived, and removed; no other machine is reached.
//
// Other projects should not import this package: it changes without notice.
package attack

import (
	"context"
	_ "embed"
	"errors"
	"strings"

	"github.com/waybill-release/waybill/pkg/pipeline/doctor"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

//go:embed table.txt
var table string

// Row is one thing that a malicious step tries.
type Row struct{ Act, Tries, does, stops, harm string }

// Rows is the table.
func Rows() (rows []Row) {
	for line := range strings.Lines(table) {
		cell := strings.Split(strings.TrimSpace(line), "|")
		rows = append(rows, Row{cell[0], cell[1], cell[2], cell[3], cell[4]})
	}
	return rows
}

// Builder is what is attacked: the steps of this machine.
type Builder struct {
	Isolation sandbox.Report
	Network   []string // hosts that the steps declare
	Run       func(context.Context, sandbox.Mode, sandbox.Step) (sandbox.Report, error)
}

// Try tries all rows, until the context ends.
func (b Builder) Try(ctx context.Context) (checks []doctor.Check) {
	for _, r := range Rows() {
		if checks = append(checks, b.try(ctx, r)); ctx.Err() != nil {
			break
		}
	}
	return checks
}

func (b Builder) try(ctx context.Context, r Row) doctor.Check {
	seen, met, err := b.attempt(ctx, r, "")
	if err == nil && !seen {
		err = errors.New("without isolation it does not succeed either: " + met)
	} else if err == nil {
		seen, met, err = b.attempt(ctx, r, b.Isolation.Mode)
	}
	name := r.Act
	switch {
	case err != nil:
		return doctor.Fault(name, verdict.Refuse(verdict.PlaceDown, name, "it %s: not decided here: %v", r.Tries, err).
			Advise("repair or permit on this host what the attempt lacks, and run it again"))
	case seen:
		return doctor.Fault(name, verdict.Refuse(verdict.NotIsolated, name, "it %s: got through: seen from outside (%s)", r.Tries, r.harm).
			Advise("do not claim Build level 3 for this host: a step can do this to the builder and to other steps"))
	}
	return doctor.Fine(name, "it %s: stopped by %s: %s", r.Tries, r.stops, met)
}
