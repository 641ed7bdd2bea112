package serve

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// recordTime is how long a request waits for its line to be written.
const recordTime = time.Second

// record writes the record: a line for each decision and for each rejected
// request, each with the digest of the line before, which reveals edited,
// dropped or moved lines; see [RecordCheck].
//
// One goroutine at a time numbers and writes lines. A decision that cannot be
// written is not answered.
type record struct {
	out   io.Writer
	clock func() time.Time

	turn chan struct{} // capacity one; its holder guards the fields below
	head api.Head
	// lost says that the last lines may or may not have been written: the next
	// line begins another record, which names the end of this one.
	lost error
	last []api.Line // decisions
}

// add writes lines; after an error none of them counts as written.
func (r *record) add(ctx context.Context, entries ...api.Entry) error {
	texts := make([][]byte, len(entries))
	for i, e := range entries {
		var err error
		if texts[i], err = json.Marshal(e); err != nil {
			return unwritten(err)
		}
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer stop()
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return unwritten(errors.New("the log accepts no more lines"))
	}
	done := make(chan error, 1)
	go func() { // a blocked log blocks this goroutine, but no answer
		defer func() { <-r.turn }()
		done <- r.write(entries, texts)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return unwritten(errors.New("the log took too long"))
	}
}

func unwritten(err error) error {
	return &verdict.UnavailableError{Place: "the record", Op: "writing the record of decisions", Err: err}
}

// write links and writes lines; the caller holds turn.
func (r *record) write(entries []api.Entry, texts [][]byte) error {
	head, block := r.head, []byte(nil)
	if head.Number == 0 || r.lost != nil {
		first := api.Entry{Time: r.clock(), Level: levelInfo, Message: api.Began}
		if r.lost != nil {
			block = append(block, '\n') // ends an incomplete line
		}
		if head.Number > 0 {
			first.After = &head
		}
		text, err := json.Marshal(first)
		if err != nil {
			return unwritten(err)
		}
		head = api.Head{Instance: rand.Text()}
		_, block, head = link(block, text, head)
	}
	lines := make([]api.Line, 0, len(entries))
	for i, text := range texts {
		var l api.Link
		l, block, head = link(block, text, head)
		if entries[i].Message == api.Decided {
			lines = append(lines, api.Line{Entry: entries[i], Link: l})
		}
	}
	if n, err := r.out.Write(block); err != nil || n < len(block) {
		r.lost = unwritten(errors.Join(err, fmt.Errorf("%d of %d bytes were written", n, len(block))))
		return r.lost
	}
	r.head, r.lost = head, nil
	if r.last = append(r.last, lines...); len(r.last) > 2*api.MaxAudit { // trimmed rarely
		r.last = slices.Clone(r.last[len(r.last)-api.MaxAudit:])
	}
	return nil
}

// link chains a line to the head, and returns the new head.
func link(block, text []byte, head api.Head) (api.Link, []byte, api.Head) {
	l := api.Link{Instance: head.Instance, Number: head.Number + 1, Previous: head.Digest}
	from := len(block)
	block = append(block, text[:len(text)-1]...)
	block = append(block, `,"instance":"`...)
	block = append(block, l.Instance...)
	block = append(block, `","number":`...)
	block = strconv.AppendInt(block, l.Number, 10)
	if !l.Previous.IsZero() {
		block = append(block, `,"previous":"`...)
		block = append(block, l.Previous.String()...)
		block = append(block, '"')
	}
	block = append(block, '}')
	next := api.Head{Instance: l.Instance, Number: l.Number, Digest: digest.Of(digest.SHA256, block[from:])}
	return l, append(block, '\n'), next
}

// tell returns the end of the record, its latest decisions, oldest first, and
// why its last line could not be written.
func (r *record) tell(ctx context.Context) (head api.Head, last []api.Line, lost error) {
	ctx, stop := context.WithTimeout(ctx, recordTime)
	defer stop()
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return api.Head{}, nil, unwritten(errors.New("the log accepts no more lines"))
	}
	defer func() { <-r.turn }()
	if r.head.Number == 0 {
		if err := r.write(nil, nil); err != nil { // begin it
			return r.head, nil, err
		}
	}
	return r.head, slices.Clone(r.last[max(0, len(r.last)-api.MaxAudit):]), r.lost
}

// Levels of lines, in the form of package slog.
const (
	levelInfo = "INFO"
	levelWarn = "WARN"
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
		findings, waived := d.Verdict.Findings, d.Verdict.Waived
		e.Reasons = slice.Map(findings[:min(len(findings), maxReasons)], func(f verdict.Finding) verdict.Code { return f.Code })
		e.Waived = slice.Map(waived[:min(len(waived), maxReasons)], func(w verdict.Waiver) string { return string(w.Finding.Code) + " " + w.ID })
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
