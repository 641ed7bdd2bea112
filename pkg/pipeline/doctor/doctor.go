// Package doctor checks what a release needs before it begins, and says for
// each check what the result is and what to do about it: tokens, clock,
// signing services, trust root, places, registry, disk, isolation, tools.
//
//	report := doctor.Examine(ctx, doctor.Stage, now,
//	    doctor.Token{Name: "release", Source: source, Role: policy.Release}.Ask(p, time.Now),
//	    doctor.Disk{Dir: state, Need: doctor.Estimate(planned)}.Ask(),
//	)
//	err := report.Err()
//
// Checks have no side effects: they write nothing, add nothing to a log, and
// request no certificate. Only a bucket whose service ignores the conditions of
// writes is written to, to find that out, and cleaned. A check that needs a write runs only if the caller
// confirms it, and is undone at once; otherwise the report says that it was
// not made. A good report proves nothing about later, and nothing about any
// artifact: everything is judged again.
//
// Other projects should not import this package: it changes without notice.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// doctorSchema names the JSON schema of a report.
const doctorSchema = "waybill/doctor/v1"

// Purpose is what the machine is examined for.
type Purpose string

// The purposes.
const (
	Build   Purpose = "build"   // run the steps of a release
	Stage   Purpose = "stage"   // build, sign, seal and stage a release
	Release Purpose = "release" // publish what is staged
	Verify  Purpose = "verify"  // verify what is published
)

// Purposes lists the purposes, for help texts.
func Purposes() []Purpose { return []Purpose{Build, Stage, Release, Verify} }

// State is the result of a check.
type State string

// The results.
const (
	OK   State = "ok"
	Warn State = "warn" // works, but needs attention
	Bad  State = "bad"  // prevents the purpose
)

// Check is the result of one check.
type Check struct {
	Name  string       `json:"name"`
	State State        `json:"state"`
	Says  string       `json:"says"`
	Code  verdict.Code `json:"code,omitempty"` // if bad
	Next  string       `json:"next,omitempty"` // the next act

	err error
}

// Ask makes one or more checks.
type Ask func(ctx context.Context) []Check

// Report is the result of an examination, in the order in which the checks
// were given.
type Report struct {
	Schema string    `json:"schema"`
	For    Purpose   `json:"for"`
	Time   time.Time `json:"time"`
	Checks []Check   `json:"checks"`
}

// patience limits the time of each Ask, including retries.
const patience = 20 * time.Second

// together limits how many Asks run at once.
const together = 16

// Examine runs all checks concurrently, and lists every result.
func Examine(ctx context.Context, p Purpose, at time.Time, asks ...Ask) Report {
	answers := make([][]Check, len(asks))
	atonce.Each(together, asks, func(i int, ask Ask) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		answers[i] = ask(ctx)
	})
	return Report{Schema: doctorSchema, For: p, Time: at.UTC(), Checks: slices.Concat(answers...)}
}

// Fine is a good result.
func Fine(name, format string, args ...any) Check {
	return Check{Name: name, State: OK, Says: fmt.Sprintf(format, args...)}
}

// Doubt is a warning with the act that could resolve it.
func Doubt(name, next, format string, args ...any) Check {
	return Check{Name: name, State: Warn, Says: fmt.Sprintf(format, args...), Next: next}
}

// Fault is a bad result, with the code and the next act of the error.
func Fault(name string, err error) Check {
	f := verdict.FindingOf(name, err)
	says := f.Message
	if f.Want != "" || f.Got != "" {
		says += fmt.Sprintf(": want %s, got %s", f.Want, f.Got)
	}
	return Check{Name: name, State: Bad, Says: says, Code: f.Code, Next: f.Fix, err: err}
}

// Verdict is the report as a verdict on whether to begin: every fault is a
// finding.
func (r Report) Verdict() *verdict.Verdict {
	v := verdict.NewCheck("preflight: "+string(r.For), r.Time)
	v.Scope.Checks = []string{"the needs of the release before it begins"}
	v.Scope.Left = []string{"the release itself"}
	v.Counts.Required = max(len(r.Checks), 1)
	for _, c := range r.Checks {
		switch c.State {
		case OK:
			v.Counts.Verified++
		case Warn:
			v.Counts.Verified++
			v.Note("%s: %s", c.Name, c.Says)
		default:
			f := verdict.FindingOf(c.Name, c.fault())
			f.Subject = c.Name
			v.Add(f)
		}
	}
	return v
}

// fault is why a check is bad. A check without an error is a bug.
func (c Check) fault() error {
	if c.err == nil {
		return errors.New("bad, without a reason: " + c.Says)
	}
	return c.err
}

// Err is nil if nothing is bad and at least one check was made.
func (r Report) Err() error { return r.Verdict().Err() }

// Write prints the report for people.
func (r Report) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	count, next := map[State]int{}, ""
	for _, c := range r.Checks {
		count[c.State]++
		says := c.Says
		if c.Code != "" {
			says = string(c.Code) + ": " + says
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", c.State, render.Safe(c.Name), render.Safe(says))
		if c.Next != "" && c.Next != next { // many in a row need the same
			fmt.Fprintf(t, "\t\t→ %s\n", render.Safe(c.Next))
		}
		next = c.Next
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nfor %s: %d ok, %s, %d bad\n", r.For, count[OK], plural.Of(count[Warn], "warning"), count[Bad])
	return err
}
