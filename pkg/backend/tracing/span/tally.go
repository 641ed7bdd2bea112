package span

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Tally counts the ended spans by name and outcome, and sums their durations.
// There are few names and outcomes, so it stays small.
type Tally struct {
	mu  sync.Mutex // guards all fields
	all map[Ended]Sum
}

// Ended is what spans are counted by.
type Ended struct {
	Name    Name
	Outcome string // Done, refused, malformed, unavailable or internal
}

// Done is the outcome of a span that ended without an error.
const Done = "done"

// Sum is a number of spans and their total duration.
type Sum struct {
	Count int
	Took  time.Duration
}

func (t *Tally) ended(name Name, outcome string, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := t.all[Ended{name, outcome}]
	sum.Count++
	sum.Took += took
	t.all[Ended{name, outcome}] = sum
}

// All lists the counts in the order of names and outcomes.
func (t *Tally) All() ([]Ended, []Sum) {
	t.mu.Lock()
	defer t.mu.Unlock()
	by := slices.SortedFunc(maps.Keys(t.all), func(a, b Ended) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Outcome, b.Outcome))
	})
	sums := slice.Map(by, func(e Ended) Sum { return t.all[e] })
	return by, sums
}

// A Run describes a command for its metrics.
type Run struct {
	Command string // stage
	Outcome string // Done, or how it failed
	Ended   time.Time
	Took    time.Duration
}

// outcomes are all outcomes of a run. Each is present in the metrics of every
// run, so that an alert can refer to one that never happened.
func outcomes() []string {
	return []string{Done, verdict.Refused.String(), verdict.Malformed.String(), verdict.Unavailable.String(), verdict.Internal.String()}
}

// WriteMetrics writes the counts and the run itself in the text format of
// Prometheus. The labels are names of commands, acts and outcomes, of which
// there are few.
func (t *Tally) WriteMetrics(w io.Writer, r Run) error {
	var text bytes.Buffer
	head := func(name, kind, help string) {
		fmt.Fprintf(&text, "# HELP %[1]s %[3]s\n# TYPE %[1]s %[2]s\n", name, kind, help)
	}
	head("waybill_run_outcome", "gauge", "How the run ended: 1 for its outcome.")
	for _, o := range outcomes() {
		ended := 0
		if o == r.Outcome {
			ended = 1
		}
		fmt.Fprintf(&text, "waybill_run_outcome{command=%q,outcome=%q} %d\n", r.Command, o, ended)
	}
	head("waybill_run_seconds", "gauge", "How long the run took.")
	fmt.Fprintf(&text, "waybill_run_seconds{command=%q} %g\n", r.Command, r.Took.Seconds())
	head("waybill_run_ended_timestamp_seconds", "gauge", "When the run ended, in seconds since 1970.")
	fmt.Fprintf(&text, "waybill_run_ended_timestamp_seconds{command=%q} %d\n", r.Command, r.Ended.Unix())
	by, sums := t.All()
	head("waybill_act_seconds", "summary", "How long the acts of the run took, by kind and outcome.")
	for i, e := range by {
		if e.Name.isTask() {
			fmt.Fprintf(&text, "waybill_act_seconds_sum{kind=%q,outcome=%q} %g\n", string(e.Name), e.Outcome, sums[i].Took.Seconds())
			fmt.Fprintf(&text, "waybill_act_seconds_count{kind=%q,outcome=%q} %d\n", string(e.Name), e.Outcome, sums[i].Count)
		}
	}
	_, err := w.Write(text.Bytes())
	return err
}
