package serve

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/value/trace"
)

// records are the record and the statistics of requests.
type records struct {
	world     *World
	record    *record
	tally     tally
	strangers strangers
}

type request struct {
	id        string
	who       caller.Principal
	basis     *standing
	began     time.Time
	read      reader
	questions []asked
	decided   []api.Decision
	acts      []trace.Context // contexts, in each of which one question was decided
	took      time.Duration
}

// writeDown records each decision of a request, then counts it. After an error
// the decisions must not be answered.
func (r *records) writeDown(ctx context.Context, of request) error {
	now := r.world.Clock()
	entries := make([]api.Entry, len(of.decided))
	for i, d := range of.decided {
		q := of.questions[i]
		e := api.Entry{
			Time: now, Level: levelInfo, Message: api.Decided, Request: of.id, Principal: of.who.Name(), Verb: q.Verb,
			Image: q.Image, To: q.To, Channel: q.Channel, Outcome: d.Outcome, Cached: d.Cached,
			Trace: of.acts[i].Trace, Span: of.acts[i].Span, Initial: of.acts[i].Initial,
			Policy: of.basis.Policy.Digest().String(), Features: d.Verdict.Features, TrustRoot: of.basis.Verifier.Root().Digest().String(), Took: of.took.String(),
		}
		for _, f := range d.Verdict.Findings[:min(len(d.Verdict.Findings), maxReasons)] {
			e.Reasons = append(e.Reasons, f.Code)
		}
		for _, w := range d.Verdict.Waived[:min(len(d.Verdict.Waived), maxReasons)] {
			e.Waived = append(e.Waived, string(w.Finding.Code)+" "+w.ID)
		}
		entries[i] = e
	}
	if err := r.record.add(ctx, entries...); err != nil {
		return err
	}
	for i, d := range of.decided {
		q := of.questions[i]
		r.tally.add(d, line{
			ID: fmt.Sprintf("%s-%d", of.id, i+1), Verdict: d.Verdict,
			At: now, Request: of.id, Principal: of.who.Name(), Verb: q.Verb, Image: q.Image, To: q.To, Outcome: d.Outcome, Cached: d.Cached, Took: of.took,
		})
	}
	return nil
}

// maxReasons is how many reasons of a decision are recorded.
const maxReasons = 20

// writeNotLetIn records rejected requests.
func (r *records) writeNotLetIn(ctx context.Context, e api.Entry) {
	ctx, end := span.Start(ctx, span.Gate)
	end(nil)
	own := span.Of(ctx)
	e.Trace, e.Span, e.Time, e.Level, e.Message = own.Trace, own.Span, r.world.Clock(), levelWarn, api.NotLetIn
	if e.Count == 1 {
		e.Count = 0 // implied by the outcome
	}
	if err := r.record.add(ctx, e); err != nil { // the request is rejected in any case; the log may be what is blocked, so nothing is logged
		r.tally.unrecorded()
	}
}

// writeStrangers records requests of unknown callers that are not recorded yet.
func (r *records) writeStrangers(ctx context.Context) {
	for code, n := range r.strangers.rest(r.world.Clock()) {
		r.writeNotLetIn(ctx, api.Entry{Code: code, Count: n})
	}
}
