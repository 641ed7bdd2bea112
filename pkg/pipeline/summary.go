package pipeline

import (
	"errors"
	"fmt"
	"time"

	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// SummarySchema names the form of the JSON of what was done.
const SummarySchema = "waybill/summary/v1"

// Done is what a command did that signs, and everything that failed.
type Done struct {
	Schema   string            `json:"schema"`
	Acts     []Summary         `json:"acts"`
	Failures []verdict.Finding `json:"failures,omitempty"`
}

// Done sums up what was done, and how it ended.
func (p *Pipeline) Done(err error) Done {
	d := Done{Schema: SummarySchema, Acts: append([]Summary{}, p.account.acts...)}
	var judged *verdict.NotAcceptedError
	switch {
	case errors.As(err, &judged):
		d.Failures = judged.Verdict.Findings
	case err != nil:
		d.Failures = []verdict.Finding{verdict.FindingOf("", err)}
	}
	return d
}

// Summary is what one act did that signs, also if it failed in the middle.
type Summary struct {
	Act string `json:"act"`
	// Signed are signatures that were made now, or by an earlier run and
	// Finished now; Reused are those that were whole already.
	Signed   int `json:"signed"`
	Finished int `json:"finished,omitempty"`
	Reused   int `json:"reused"`
	// Entries are how many the logs made of them, all logs together.
	Entries int `json:"logEntries"`
	// Twice is how many of them may be in a log that does not remember twice.
	Twice   int     `json:"perhapsTwiceInTheLog"`
	Retries int     `json:"retries"`
	Seconds float64 `json:"seconds"`
}

func (s *Summary) add(signer *sign.Signer, took time.Duration) {
	t := signer.Tally()
	s.Signed, s.Reused = s.Signed+t.Made+t.Finished, s.Reused+t.Found
	s.Entries, s.Finished = t.Entries, t.Finished
	s.Twice, s.Retries, s.Seconds = t.Twice, signer.Retries(), took.Seconds()
}

// Counter is shown how many of how many things are done. A Progress that is
// one, too, is shown how signing gets on.
type Counter interface {
	Counted(what string, done, all int)
	Ended(what string)
}

// watched has signing shown to whoever watches, until the act has ended.
func watched(w World, name string) (work sign.Work, end func()) {
	work = w.Work
	counter, watches := w.Progress.(Counter)
	if !watches {
		return work, func() {}
	}
	work.Watch = func(done, all int) { counter.Counted(name, done, all) }
	return work, func() { counter.Ended(name) }
}

// String is the summary in a line for people.
func (s Summary) String() string {
	text := fmt.Sprintf("%s: signed %d, reused %d, %s, %s, in %s", s.Act, s.Signed, s.Reused, several(s.Entries, "log entry", "log entries"), several(s.Retries, "retry", "retries"),
		time.Duration(s.Seconds*float64(time.Second)).Round(time.Millisecond))
	if s.Finished > 0 {
		text += fmt.Sprintf("; %d of an earlier run finished", s.Finished)
	}
	if s.Twice > 0 {
		text += fmt.Sprintf("; at most %d are in the log twice", s.Twice)
	}
	return text
}
