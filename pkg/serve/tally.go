package serve

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// kept is how many decisions the status page shows.
const kept = 50

// tally counts. Its labels are outcomes and codes, a fixed set, never text from
// a request.
type tally struct {
	mu       sync.Mutex // guards the fields below
	outcomes map[verdict.Outcome]int64
	reasons  map[verdict.Code]int64 // of refused decisions
	away     map[verdict.Code]int64 // of rejected requests
	hits     int64
	unsaid   int64 // lines that could not be written to the record
	reloads  attempts
	features attempts // to read the features
	seconds  histogram
	last     []line
}

// line is one decision on the status page.
type line struct {
	ID                 string // of its page
	At                 time.Time
	Request, Principal string
	Image, To          string
	Verb               api.Verb
	Outcome            string
	Reason             string
	Cached             bool
	Took               time.Duration
	Verdict            *verdict.Verdict // of a cached decision, shared: it is not changed
}

// histogram counts durations.
type histogram struct {
	counts [len(bounds) + 1]int64
	sum    float64
}

// bounds of the histogram, in seconds.
var bounds = [...]float64{0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10}

func (h *histogram) add(d time.Duration) {
	i, _ := slices.BinarySearch(bounds[:], d.Seconds())
	h.counts[i]++
	h.sum += d.Seconds()
}

// attempts counts what failed and what succeeded.
type attempts struct{ failed, ok int64 }

func (a attempts) results() map[string]int64 { return map[string]int64{"failed": a.failed, "ok": a.ok} }

// ended counts one of the tally's attempts.
func (t *tally) ended(a *attempts, well bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if well {
		a.ok++
	} else {
		a.failed++
	}
}

func (t *tally) unrecorded() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unsaid++
}

func (t *tally) turnedAway(c verdict.Code) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.away == nil {
		t.away = map[verdict.Code]int64{}
	}
	t.away[c]++
}

// add counts one decision, and keeps it for the page.
func (t *tally) add(d api.Decision, l line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.outcomes == nil {
		t.outcomes, t.reasons = map[verdict.Outcome]int64{}, map[verdict.Code]int64{}
	}
	t.outcomes[d.Verdict.Outcome()]++
	if d.Cached {
		t.hits++
	}
	t.seconds.add(l.Took)
	for _, f := range d.Verdict.Findings {
		t.reasons[f.Code]++
		l.Reason = cmp.Or(l.Reason, string(f.Code))
	}
	if t.last = append(t.last, l); len(t.last) > kept {
		t.last = slices.Delete(t.last, 0, len(t.last)-kept)
	}
}

func (s *Server) metrics(w io.Writer) {
	s.records.tally.write(w)
	s.features.measure(w, s.basis.Load().switched)
}

func (t *tally) write(w io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	outcomes := map[string]int64{}
	for _, o := range []verdict.Outcome{verdict.Accepted, verdict.Refused, verdict.Malformed, verdict.Unavailable, verdict.Internal, verdict.Undecided} {
		outcomes[o.String()] = t.outcomes[o]
	}
	WriteMetric(w, Metric{"waybill_gate_decisions_total", "counter", "Decisions, by outcome.", "outcome"}, outcomes)
	WriteMetric(w, Metric{"waybill_gate_findings_total", "counter", "Findings of decisions, by reason code.", "code"}, t.reasons)
	WriteMetric(w, Metric{"waybill_gate_rejected_requests_total", "counter", "Requests rejected before a decision, by reason code.", "code"}, t.away)
	WriteMetric(w, Metric{"waybill_gate_cached_decisions_total", "counter", "Decisions answered from the cache.", ""}, map[string]int64{"": t.hits})
	var decided int64
	for _, n := range t.outcomes {
		decided += n
	}
	WriteMetric(w, Metric{"waybill_gate_cache_hit_ratio", "gauge", "Share of decisions answered from the cache.", ""}, map[string]float64{"": float64(t.hits) / float64(max(1, decided))})
	WriteMetric(w, Metric{"waybill_gate_unrecorded_total", "counter", "Requests that could not be recorded; they were answered without a decision.", ""}, map[string]int64{"": t.unsaid})
	WriteMetric(w, Metric{"waybill_gate_reloads_total", "counter", "Reloads of policy, trust root and callers, by result.", "result"}, t.reloads.results())
	WriteMetric(w, Metric{"waybill_features_reads_total", "counter", "Readings of the features that switch requirements of the policy, by result.", "result"}, t.features.results())
	WriteMetric(w, Metric{"waybill_gate_request_seconds", "histogram", "Duration of requests in seconds.", ""}, map[string]int64{})
	var sum int64
	for i, n := range t.seconds.counts {
		sum += n
		edge := "+Inf"
		if i < len(bounds) {
			edge = fmt.Sprint(bounds[i])
		}
		fmt.Fprintf(w, "waybill_gate_request_seconds_bucket{le=%q} %d\n", edge, sum)
	}
	fmt.Fprintf(w, "waybill_gate_request_seconds_sum %g\nwaybill_gate_request_seconds_count %d\n", t.seconds.sum, sum)
}
