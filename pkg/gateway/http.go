package gateway

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/caller"
	"github.com/waybill-release/waybill/pkg/gateway/ask"
	"github.com/waybill-release/waybill/pkg/trace"
	"github.com/waybill-release/waybill/pkg/trace/span"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// routes are the addresses at which callers ask. What is not here is not found,
// however it is spelled.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/decisions", s.decisions)
	mux.HandleFunc("GET /v1/audit", s.audit)
	mux.HandleFunc("GET /openapi.json", s.document)
	mux.HandleFunc("GET /livez", alive)
	mux.HandleFunc("GET /readyz", s.ready)
	return mux
}

// Admin is the handler for those who look after the service, on a listener of
// its own that callers do not reach: what it is doing, and for whom.
func (s *Server) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", alive)
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("GET /metrics", s.metrics)
	mux.HandleFunc("GET /statusz", s.status)
	mux.HandleFunc("GET /flagz", s.flagz)
	return mux
}

func alive(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "alive\n") }

// ready says whether new requests are welcome.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if s.draining.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "ending\n")
		return
	}
	if s.known(s.basis.Load().switched) != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "it is not known how the features stand\n")
		return
	}
	_, _ = io.WriteString(w, "ready\n")
}

// decisions answers POST /v1/decisions.
func (s *Server) decisions(w http.ResponseWriter, r *http.Request) {
	began, id := s.world.Clock(), rand.Text()
	w.Header().Set("Waybill-Request-Id", id)
	basis := s.basis.Load()
	ctx, stop := context.WithTimeout(r.Context(), s.limits.Deadline)
	defer stop()
	who, err := s.identify(ctx, r, basis)
	if err != nil {
		s.turnAway(w, r, notLetIn{id: id, err: err, status: http.StatusUnauthorized})
		return
	}
	leave, err := s.admit(ctx, basis, who)
	if err != nil {
		s.turnAway(w, r, notLetIn{id: id, who: who, err: err, status: statusOf(err), unread: true})
		return
	}
	defer leave()
	q, err := s.readInTurn(ctx, r, who)
	if err != nil {
		s.turnAway(w, r, notLetIn{id: id, who: who, err: err, status: statusOf(err), unread: statusOf(err) != 0})
		return
	}
	all, err := s.granted(basis, who, q)
	if err != nil {
		s.turnAway(w, r, notLetIn{id: id, who: who, err: err})
		return
	}
	ctx, stop = context.WithTimeout(ctx, s.deadline(q))
	defer stop()
	leave, err = s.take(ctx, who, len(all))
	if err != nil {
		s.turnAway(w, r, notLetIn{id: id, who: who, err: err, status: http.StatusTooManyRequests})
		return
	}
	defer leave()
	if from := over(r); from != nil {
		from.heard()
	}
	if overrides(all) {
		if err := s.spend(ctx, who, id); err != nil {
			s.turnAway(w, r, notLetIn{id: id, who: who, err: err})
			return
		}
	}
	decided, acts := s.decide(s.letIn(ctx, r), basis, all)
	if err := s.writeDown(ctx, basis, request{id: id, who: who, questions: all, decided: decided, acts: acts, took: s.world.Clock().Sub(began)}); err != nil {
		s.turnAway(w, r, notLetIn{id: id, who: who, err: err})
		return
	}
	worst := worstOf(decided)
	if verdict.HTTPStatus(worst) == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	writeJSON(w, verdict.HTTPStatus(worst), ask.Answer{Schema: ask.SchemaAnswer, RequestID: id, Outcome: worst.String(), Decisions: decided})
}

// letIn goes on with the trace of a caller who was let in. What anybody else
// says of a trace is not taken: the decision begins one of its own, and so it
// does where that is not well formed.
func (s *Server) letIn(ctx context.Context, r *http.Request) context.Context {
	ctx, err := span.Extract(ctx, r.Header)
	if err != nil {
		s.world.Log.DebugContext(ctx, "what a caller says of a trace is not taken", "error", err.Error())
	}
	return ctx
}

// statusOf is the status of a request that is turned away: 429 where too much is
// asked.
func statusOf(err error) int {
	if verdict.FindingOf("", err).Code == verdict.Busy {
		return http.StatusTooManyRequests
	}
	return 0
}

// admit lets in a caller who may ask for something, who has not asked for too
// much lately, and who is not waiting for too much already. Nothing of the
// request was read then.
func (s *Server) admit(ctx context.Context, basis *standing, who caller.Principal) (leave func(), err error) {
	if err := basis.Callers.MayAsk(who); err != nil {
		return nil, err
	}
	if err := s.spendRate(who, 0); err != nil {
		return nil, err
	}
	return s.fair.waiting.tryEnter(who.Name())
}

// spendRate takes n decisions from what a caller may ask for; none only asks
// whether any are left.
func (s *Server) spendRate(who caller.Principal, n int) error {
	if !s.rates.take(who.Name(), n) {
		return verdict.Refuse(verdict.Busy, who.Name(), "it asks more than %d decisions a second", s.limits.PerCaller).Advise(askLater)
	}
	return nil
}

// readInTurn reads a request when there is room for its bytes. A caller has a
// part of the room: whoever sends slowly holds up nobody else.
func (s *Server) readInTurn(ctx context.Context, r *http.Request, who caller.Principal) (ask.Request, error) {
	leave, err := s.fair.bodies.enter(ctx, who.Name())
	if err != nil {
		return ask.Request{}, err
	}
	defer leave()
	leaveAll, err := s.bodies.enter(ctx, "")
	if err != nil {
		return ask.Request{}, err
	}
	defer leaveAll()
	return s.readRequest(r)
}

// take waits for a slot, and takes n decisions from what a caller may ask for.
func (s *Server) take(ctx context.Context, who caller.Principal, n int) (leave func(), err error) {
	if leave, err = s.slots.enter(ctx); err != nil {
		return nil, err
	}
	if err := s.spendRate(who, n); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// identify recognises who asks: by the certificate of the connection, or by the
// one token of the request. Nothing else that a request says of itself counts.
func (s *Server) identify(ctx context.Context, r *http.Request, basis *standing) (caller.Principal, error) {
	tokens := r.Header.Values("Authorization")
	if len(tokens) == 0 && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		now := s.world.Clock()
		if err := s.clients.verify(r.TLS.PeerCertificates, now); err != nil {
			return caller.Principal{}, err
		}
		return basis.Callers.Certificate(r.TLS.VerifiedChains[0][0], now)
	}
	if len(tokens) != 1 {
		return caller.Principal{}, verdict.Refuse(verdict.TokenParse, "request", "want one Authorization header, or a client certificate")
	}
	scheme, token, found := strings.Cut(tokens[0], " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return caller.Principal{}, verdict.Refuse(verdict.TokenParse, "request", "want Authorization: Bearer TOKEN")
	}
	now := s.world.Clock()
	if who, known := basis.tokens.find(token, now); known {
		return who, nil
	}
	who, err := s.verify(ctx, basis, token)
	if err == nil {
		basis.tokens.keep(token, who, now)
	}
	return who, err
}

// verify recognises who shows a token by the keys of its issuer.
func (s *Server) verify(ctx context.Context, basis *standing, token string) (caller.Principal, error) {
	issuer, err := basis.Callers.Issuer(token)
	if err != nil {
		return caller.Principal{}, err
	}
	keys, err := s.keys.of(ctx, issuer, false)
	if err != nil {
		return caller.Principal{}, err
	}
	who, err := basis.Callers.Token(token, keys, s.world.Clock())
	if verdict.FindingOf("", err).Code == verdict.TokenKey && err != nil { // issuers change their keys
		if keys, err := s.keys.of(ctx, issuer, true); err == nil {
			return basis.Callers.Token(token, keys, s.world.Clock())
		}
	}
	return who, err
}

// granted reads the questions and holds each against the book. If one of them
// is not granted none is answered.
func (s *Server) granted(basis *standing, who caller.Principal, q ask.Request) ([]asked, error) {
	all := make([]asked, len(q.Decisions))
	for i, question := range q.Decisions {
		var err error
		if all[i], err = read(question); err != nil {
			return nil, err
		}
		if err := basis.Callers.May(who, all[i].act()); err != nil {
			return nil, err
		}
		all[i].caller = who.Name()
	}
	if overrides(all) {
		return all, s.mayOverride(who)
	}
	return all, nil
}

// notLetIn is a request that is not decided about.
type notLetIn struct {
	id     string
	who    caller.Principal
	err    error
	status int // zero is that of the error
	unread bool
}

// turnAway answers a request that is not decided about, and logs why.
func (s *Server) turnAway(w http.ResponseWriter, r *http.Request, n notLetIn) {
	f := verdict.FindingOf("request", n.err)
	if n.unread && r.ContentLength > 0 { // or the answer would wait for what is not sent
		w.Header().Set("Connection", "close")
	}
	outcome := f.Code.Outcome()
	code := n.status
	switch {
	case outcome == verdict.Unavailable && code != http.StatusTooManyRequests:
		code = http.StatusServiceUnavailable
	case code == 0:
		code = verdict.HTTPStatus(outcome)
	}
	switch code {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="waybill gate"`)
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	}
	s.tally.turnedAway(f.Code)
	count := int64(1)
	if n.who.Name() == "" {
		count = s.strangers.met(f.Code, s.world.Clock())
	}
	if count > 0 {
		s.writeNotLetIn(r.Context(), ask.Entry{Request: n.id, Principal: n.who.Name(), Code: f.Code, Problem: f.Message, Status: code, Count: count})
	}
	writeJSON(w, code, ask.Problem{Schema: ask.SchemaAnswer, RequestID: n.id, Outcome: outcome.String(), Problem: f})
}

// writeNotLetIn records requests that were not let in.
func (s *Server) writeNotLetIn(ctx context.Context, e ask.Entry) {
	ctx, end := span.Start(ctx, span.Gate)
	end(nil)
	own := span.Of(ctx)
	e.Trace, e.Span, e.Time, e.Level, e.Message = own.Trace, own.Span, s.world.Clock(), levelWarn, ask.NotLetIn
	if e.Count == 1 {
		e.Count = 0 // it goes without saying
	}
	if err := s.written.add(ctx, e); err != nil { // it is a no in any case; the log may be what stands still, so nothing is said there
		s.tally.unrecorded()
	}
}

// worstOf is the outcome of several: one no is a no, and what is not known of
// one is not known of all.
func worstOf(all []ask.Decision) verdict.Outcome {
	worst := verdict.Undecided
	for i, d := range all {
		if o := d.Verdict.Outcome(); i == 0 || weight(o) > weight(worst) {
			worst = o
		}
	}
	return worst
}

func weight(o verdict.Outcome) int {
	switch o {
	case verdict.Accepted:
		return 0
	case verdict.Unavailable:
		return 1
	case verdict.Refused, verdict.Undecided:
		return 2
	case verdict.Malformed:
		return 3
	}
	return 4
}

// readAll reads a body that may not be longer than a limit.
func readAll(body io.Reader, limit int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(body, limit+1))
	switch {
	case err != nil:
		return nil, wrong("it was not sent whole")
	case int64(len(raw)) > limit:
		return nil, wrong("it is longer than %d bytes", limit)
	}
	return raw, nil
}

// request is a request that was decided, for the record.
type request struct {
	id        string
	who       caller.Principal
	questions []asked
	decided   []ask.Decision
	acts      []trace.Context // in each of which one was decided
	took      time.Duration
}
