package watch

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/watched"
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
