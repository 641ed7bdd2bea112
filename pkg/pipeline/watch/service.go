package watch

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
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

	mu      sync.Mutex // guards the fields below
	logs    map[string]Seen
	passes  map[verdict.Outcome]int
	alarms  map[verdict.Code]int
	success time.Time
}

// Run makes passes until ctx ends, which is no error: the next run continues where the
// last pass was interrupted. It fails if the gate cannot be opened at first, or if a
// verdict cannot be told.
func (s *Service) Run(ctx context.Context) error {
	tell := s.Seen
	s.Seen = func(at Seen) {
		s.see(at)
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
		}
		if ctx.Err() != nil {
			return nil
		}
		s.judged(v)
		if err := s.Tell(v); err != nil {
			return err
		}
		if transport.Sleep(ctx, s.Every-time.Since(began)) != nil {
			return nil
		}
	}
}

// see counts the entries of a log.
func (s *Service) see(at Seen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.logs == nil {
		s.logs = map[string]Seen{}
	}
	at.New += s.logs[at.Log].New
	s.logs[at.Log] = at
}

// judged counts a pass. It is a success if everything was read and verified, with or
// without unexplained entries.
func (s *Service) judged(v *verdict.Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.passes == nil {
		s.passes = map[verdict.Outcome]int{}
	}
	s.passes[v.Outcome()]++
	s.alarms = map[verdict.Code]int{}
	decided := len(v.Findings) > 0 || v.Outcome() == verdict.Accepted
	for _, f := range v.Findings {
		s.alarms[f.Code]++
		decided = decided && f.Code == watched.Unexplained
	}
	if decided {
		s.success = v.Time
	}
}

// WriteMetrics writes the counts in the text format of Prometheus.
func (s *Service) WriteMetrics(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	logs := slices.Sorted(maps.Keys(s.logs))
	for _, m := range []struct {
		name, kind, help string
		of               func(Seen) int64
	}{
		{"entries_total", "counter", "Log entries that were read since the start.", func(l Seen) int64 { return l.New }},
		{"next_entry", "gauge", "Index of the first log entry that was not read yet.", func(l Seen) int64 { return l.Next }},
		{"checkpoint_size", "gauge", "Number of entries in the last checkpoint.", func(l Seen) int64 { return l.Size }},
		{"checkpoint_timestamp_seconds", "gauge", "When the last checkpoint was first seen, in seconds since 1970.", func(l Seen) int64 { return l.Grown.Unix() }},
	} {
		serve.Head(w, "waybill_watch_"+m.name, m.kind, m.help)
		for _, log := range logs {
			fmt.Fprintf(w, "waybill_watch_%s{log=%q} %d\n", m.name, log, m.of(s.logs[log]))
		}
	}
	serve.Head(w, "waybill_watch_alarms", "gauge", "Findings of the last pass, by reason code.")
	for _, c := range slices.Sorted(maps.Keys(s.alarms)) {
		fmt.Fprintf(w, "waybill_watch_alarms{code=%q} %d\n", string(c), s.alarms[c])
	}
	serve.Head(w, "waybill_watch_passes_total", "counter", "Passes over all logs, by outcome.")
	for _, o := range []verdict.Outcome{verdict.Accepted, verdict.Refused, verdict.Malformed, verdict.Unavailable, verdict.Internal} {
		fmt.Fprintf(w, "waybill_watch_passes_total{outcome=%q} %d\n", o.String(), s.passes[o])
	}
	serve.Head(w, "waybill_watch_last_success_timestamp_seconds", "gauge", "When the last pass began that read and verified everything, with or without unexplained entries, in seconds since 1970; 0 for never.")
	fmt.Fprintf(w, "waybill_watch_last_success_timestamp_seconds %d\n", max(0, s.success.Unix()))
}
