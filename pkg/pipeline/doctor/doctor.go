// Package doctor looks at what a release needs before it is begun, and says of
// each thing how it stands and what to do about it: tokens, clock, signing
// services, trust root, places, registry, disk, walls, tools.
//
//	report := doctor.Examine(ctx, doctor.Stage, now,
//	    doctor.Token{Name: "release", Path: path, Role: policy.Release}.Ask(p, time.Now),
//	    doctor.Disk{Dir: state, Need: doctor.Estimate(planned)}.Ask(),
//	)
//	err := report.Err()
//
// Looking leaves no trace: nothing is written, nothing enters a log, no
// certificate is asked for. What can only be found out by doing it is done
// where the caller confirms it, and undone at once; elsewhere the report says
// that it was not asked. That everything is well now proves nothing about
// later, and nothing about any artifact: what is made is judged all the same.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Schema names the JSON form of a report.
const Schema = "waybill/doctor/v1"

// Purpose is what the machine is examined for.
type Purpose string

// The purposes.
const (
	Build   Purpose = "build"   // to run the steps of a release
	Stage   Purpose = "stage"   // to build, sign, seal and stage it
	Release Purpose = "release" // to publish what is staged
	Verify  Purpose = "verify"  // to verify what is published
)

// Purposes lists them, for help texts.
func Purposes() []Purpose { return []Purpose{Build, Stage, Release, Verify} }

// State is how a thing stands.
type State string

// The states.
const (
	OK   State = "ok"
	Warn State = "warn" // it goes, and somebody should know
	Bad  State = "bad"  // it stops what is meant
)

// Check is one thing that was looked at.
type Check struct {
	Name  string       `json:"name"`
	State State        `json:"state"`
	Says  string       `json:"says"`
	Code  verdict.Code `json:"code,omitempty"` // of what is bad
	Next  string       `json:"next,omitempty"` // the next act

	err error
}

// Ask looks at something.
type Ask func(ctx context.Context) []Check

// Report is what an examination found, in the order in which it was asked.
type Report struct {
	Schema string    `json:"schema"`
	For    Purpose   `json:"for"`
	Time   time.Time `json:"time"`
	Checks []Check   `json:"checks"`
}

// patience bounds each question, retries included.
const patience = 20 * time.Second

// together is how many questions are open at once.
const together = 16

// Examine asks everything side by side, and lists every answer.
func Examine(ctx context.Context, p Purpose, at time.Time, asks ...Ask) Report {
	answers := make([][]Check, len(asks))
	var group errgroup.Group
	group.SetLimit(together)
	for i, ask := range asks {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			answers[i] = ask(ctx)
			return nil
		})
	}
	_ = group.Wait() // no ask returns an error: all are answers
	r := Report{Schema: Schema, For: p, Time: at.UTC()}
	for _, checks := range answers {
		r.Checks = append(r.Checks, checks...)
	}
	return r
}

// Fine says that a thing is as it should be.
func Fine(name, format string, args ...any) Check {
	return Check{Name: name, State: OK, Says: fmt.Sprintf(format, args...)}
}

// Doubt says what somebody should know, and what could be done about it.
func Doubt(name, next, format string, args ...any) Check {
	return Check{Name: name, State: Warn, Says: fmt.Sprintf(format, args...), Next: next}
}

// Fault says what is wrong, with the code and the next act of the error.
func Fault(name string, err error) Check {
	f := verdict.FindingOf(name, err)
	says := f.Message
	if f.Want != "" || f.Got != "" {
		says += fmt.Sprintf(": want %s, got %s", f.Want, f.Got)
	}
	return Check{Name: name, State: Bad, Says: says, Code: f.Code, Next: f.Fix, err: err}
}

// Verdict is the report as the answer to whether to begin: every fault is a
// finding, all of them at once.
func (r Report) Verdict() *verdict.Verdict {
	v := verdict.NewCheck("is everything there to "+string(r.For), r.Time)
	v.Scope.Checks = []string{"what the release needs before it is begun"}
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

// fault is why a check is bad. One that does not say is a bug of ours.
func (c Check) fault() error {
	if c.err == nil {
		return errors.New("bad, and nobody said why: " + c.Says)
	}
	return c.err
}

// Err is nil if nothing is bad, and something was looked at.
func (r Report) Err() error { return r.Verdict().Err() }

// Write prints the report for people.
func (r Report) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	count := map[State]int{}
	for _, c := range r.Checks {
		count[c.State]++
		says := c.Says
		if c.Code != "" {
			says = string(c.Code) + ": " + says
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", c.State, render.Safe(c.Name), render.Safe(says))
		if c.Next != "" {
			fmt.Fprintf(t, "\t\t→ %s\n", render.Safe(c.Next))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nfor %s: %d ok, %s, %d bad\n", r.For, count[OK], plural.Of(count[Warn], "warning"), count[Bad])
	return err
}
