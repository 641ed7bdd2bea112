package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/watched"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/serve"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Service repeats passes, and counts for its metrics.
type Service struct {
	Config
	Every time.Duration
	// Open makes the gate of each pass: policy and trust root change while it runs.
	Open func(context.Context) (gate.Gate, error)
	// Tell gets the verdict of each pass.
	Tell func(*verdict.Verdict) error

	mu                         sync.Mutex // guards the fields below
	entries, size, grown, next map[string]int64
	alarms                     map[verdict.Code]int64
	success                    int64
}

// Run makes passes until ctx ends, which is no error: the next run continues where the
// last pass was interrupted. It fails if the gate cannot be opened at first, or if a
// verdict cannot be told.
func (s *Service) Run(ctx context.Context) error {
	tell := s.Seen
	s.mu.Lock() // the metrics may be served already
	s.entries, s.size, s.grown, s.next = map[string]int64{}, map[string]int64{}, map[string]int64{}, map[string]int64{}
	s.mu.Unlock()
	s.Seen = func(at Seen) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.entries[at.Log] += at.New
		s.size[at.Log], s.grown[at.Log], s.next[at.Log] = at.Size, at.Grown.Unix(), at.Next
		if tell != nil {
			tell(at)
		}
	}
	for first := true; ; first = false {
		began := time.Now()
		g, err := s.Open(ctx)
		if err != nil && first {
			return err
		}
		v := verdict.New("log entries", began)
		v.AddError("profile", err)
		if s.Gate = g; err == nil {
			v = s.Once(ctx, began)
		} else if s.Webhook != "" {
			v.AddError("webhook", (&run{Config: s.Config, v: v, partial: true}).alarm(ctx))
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // see above: the end is no error
		}
		s.judged(v)
		if err := s.Tell(v); err != nil {
			return err
		}
		if transport.Sleep(ctx, s.Every-time.Since(began)) != nil {
			return nil //nolint:nilerr // as before
		}
	}
}

// judged counts a pass. It is a success if everything was read and verified, with or
// without unexplained entries.
func (s *Service) judged(v *verdict.Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alarms = map[verdict.Code]int64{}
	for _, f := range v.Findings {
		s.alarms[f.Code]++
	}
	if v.Outcome() == verdict.Accepted || int(s.alarms[watched.Unexplained]) == max(1, len(v.Findings)) {
		s.success = v.Time.Unix()
	}
}

// WriteMetrics writes the counts in the text format of Prometheus.
func (s *Service) WriteMetrics(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	serve.WriteMetric(w, serve.Metric{Name: "waybill_watch_entries_total", Kind: "counter", Help: "Log entries that were read since the start.", Label: "log"}, s.entries)
	serve.WriteMetric(w, serve.Metric{Name: "waybill_watch_next_entry", Kind: "gauge", Help: "Index of the first log entry that was not read yet.", Label: "log"}, s.next)
	serve.WriteMetric(w, serve.Metric{Name: "waybill_watch_checkpoint_size", Kind: "gauge", Help: "Number of entries in the last checkpoint.", Label: "log"}, s.size)
	serve.WriteMetric(w, serve.Metric{Name: "waybill_watch_checkpoint_timestamp_seconds", Kind: "gauge", Help: "When the last checkpoint was first seen.", Label: "log"}, s.grown)
	serve.WriteMetric(w, serve.Metric{Name: "waybill_watch_alarms", Kind: "gauge", Help: "Findings of the last pass, by reason code.", Label: "code"}, s.alarms)
	serve.WriteMetric(w, serve.Metric{
		Name: "waybill_watch_last_success_timestamp_seconds", Kind: "gauge", Help: "When the last pass began that read and verified everything, with or without unexplained entries; 0 for never.",
	}, map[string]int64{"": s.success})
}

// alarms is the file with the findings of the last pass, and whether each was posted.
const alarms = "alarms.json"

// alarm posts the findings that were not posted yet, as a verdict in JSON. What did not
// answer is posted if the pass before did not reach it either. If posting fails, this is a
// finding, and the next pass posts them again.
func (r *run) alarm(ctx context.Context) error {
	before, now, fresh := map[string]bool{}, map[string]bool{}, *r.v
	if err := r.read(alarms, &before); err != nil {
		return err
	}
	down := func(f verdict.Finding) bool { return f.Code.Outcome() == verdict.Unavailable }
	key := func(f verdict.Finding) string { return string(f.Code) + " " + f.Subject }
	if fresh.Findings = nil; r.partial || slices.ContainsFunc(r.v.Findings, down) { // what was found before may still be so
		maps.Copy(now, before)
	}
	for _, f := range r.v.Findings {
		posted, known := before[key(f)]
		if now[key(f)] = posted; !posted && (known || !down(f)) {
			fresh.Findings = append(fresh.Findings, f)
		}
	}
	if len(fresh.Findings) == 0 {
		return r.write(ctx, alarms, now)
	}
	err := r.post(ctx, fresh)
	for _, f := range fresh.Findings {
		now[key(f)] = err == nil
	}
	return errors.Join(err, r.write(ctx, alarms, now))
}

// post posts a verdict; the transport repeats what fails. Messages leave out the path of
// the address, which is often a secret.
func (r *run) post(ctx context.Context, v verdict.Verdict) error {
	var body bytes.Buffer
	if err := render.Write(&body, render.JSON, v); err != nil {
		return err
	}
	to, err := http.NewRequestWithContext(ctx, http.MethodPost, r.Webhook, &body)
	if err != nil {
		return verdict.Refuse(verdict.Usage, "webhook", "its address is no URL")
	}
	to.Header.Set("Content-Type", "application/json")
	resp, err := transport.Client(transport.Repeatable(r.Transport)).Do(to)
	if named := (*url.Error)(nil); errors.As(err, &named) {
		err = named.Err
	}
	if err == nil {
		defer resp.Body.Close()
		switch {
		case resp.Request.Method != http.MethodPost: // such as to a login page, which answers 200
			err = errors.New("it redirected to a page, without what was posted")
		case resp.StatusCode/100 == 2:
			return nil
		default:
			err = fmt.Errorf("it answered %s", resp.Status)
		}
	}
	return &verdict.UnavailableError{Place: to.URL.Scheme + "://" + to.URL.Host, Op: "posting an alarm to the webhook", Err: err}
}
