package pipeline

import (
	"errors"
	"fmt"
	"time"

	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/produce/run"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// summarySchema names the JSON schema of [Done].
const summarySchema = "waybill/summary/v1"

// Done is what a command signed, and everything that failed.
type Done struct {
	Schema   string            `json:"schema"`
	Acts     []Summary         `json:"acts"`
	Failures []verdict.Finding `json:"failures,omitempty"`
}

// Done summarizes what was signed, and how the run ended.
func (p *Pipeline) Done(err error) Done {
	d := Done{Schema: summarySchema, Acts: append([]Summary{}, p.account.acts...)}
	var judged *verdict.NotAcceptedError
	switch {
	case errors.As(err, &judged):
		d.Failures = judged.Verdict.Findings
	case err != nil:
		d.Failures = []verdict.Finding{verdict.FindingOf("", err)}
	}
	return d
}

// Summary is what one act signed, even if it failed halfway.
type Summary struct {
	Act string `json:"act"`
	// Signed counts signatures made now, including those that an earlier run
	// began and this one finished (Finished); Reused counts complete ones.
	Signed   int `json:"signed"`
	Finished int `json:"finished,omitempty"`
	Reused   int `json:"reused"`
	// Entries counts log entries, of all logs together.
	Entries int `json:"logEntries"`
	// Twice is how many entries may be duplicates, in a log that does not
	// detect duplicates.
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

// Watcher shows how far acts have come. If the Progress of a run implements it,
// every act is shown while it runs.
type Watcher interface {
	run.Progress
	Update(act string, far gate.Progress)
}

// show shows an act until the returned function is called. A build shows its
// steps, so it is shown only while it signs.
func show(w World, act string) (end func()) {
	watcher, watches := w.Progress.(Watcher)
	if !watches {
		return func() {}
	}
	if act != actBuild {
		watcher.Began(act)
	}
	return func() { watcher.Ended(act) }
}

// tell shows how far an act has come.
func (t tools) tell(far gate.Progress) {
	if watcher, watches := t.Progress.(Watcher); watches {
		watcher.Update(t.act, far)
	}
}

// watched connects signing to the progress display.
func watched(w World, act string) sign.Work {
	work := w.Work
	if watcher, watches := w.Progress.(Watcher); watches {
		work.Watch = func(done, all int) { watcher.Update(act, gate.Progress{Files: done, OfFiles: all}) }
	}
	return work
}

// String is the summary in one line.
func (s Summary) String() string {
	text := fmt.Sprintf("%s: signed %d, reused %d, %s, %s, in %s", s.Act, s.Signed, s.Reused, plural.Of(s.Entries, "log entry"), plural.Of(s.Retries, "retry"),
		time.Duration(s.Seconds*float64(time.Second)).Round(time.Millisecond))
	if s.Finished > 0 {
		text += fmt.Sprintf("; finished from an earlier run: %d", s.Finished)
	}
	if s.Twice > 0 {
		text += fmt.Sprintf("; log entries that may be duplicates: at most %d", s.Twice)
	}
	return text
}
