package serve

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// routes are the paths for callers. All other paths and spellings are not
// found.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/decisions", s.decisions)
	mux.HandleFunc("GET /v1/audit", s.audit)
	mux.HandleFunc("GET /openapi.json", describe)
	mux.HandleFunc("GET /livez", alive)
	mux.HandleFunc("GET /readyz", s.ready)
	if s.world.Proxy != nil {
		mux.HandleFunc("/v2/", s.registry)
	}
	return mux
}

// Admin is the handler for operators, on a separate listener that callers
// cannot reach: metrics, status and readiness.
func (s *Server) Admin() http.Handler {
	mux := measured(s.metrics)
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("GET /statusz", s.status)
	mux.HandleFunc("GET /statusz/decision/{id}", s.decision)
	mux.HandleFunc("GET /flagz", s.flagz)
	return mux
}

func alive(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "alive\n") }

// ready reports whether new requests are welcome.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if s.draining.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "ending\n")
		return
	}
	if s.features.checkKnown(s.basis.Load().switched) != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "the states of the features are unknown\n")
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
	who, err := s.admission.identify(ctx, r, basis)
	if err != nil {
		s.turnAway(w, r, notLetIn{id: id, err: err, status: http.StatusUnauthorized})
		return
	}
	leave, err := s.admission.admit(ctx, basis, who)
	if err != nil {
		s.turnAway(w, r, notLetIn{id: id, who: who, err: err, status: statusOf(err), unread: true})
		return
	}
	defer leave()
	q, err := s.admission.readInTurn(ctx, r, who)
	if err != nil {
		s.turnAway(w, r, notLetIn{id: id, who: who, err: err, status: statusOf(err), unread: statusOf(err) != 0})
		return
	}
	all, err := s.granted(basis, who, q)
	if err != nil {
		s.turnAway(w, r, notLetIn{id: id, who: who, err: err})
		return
	}
	ctx, stop = context.WithTimeout(ctx, s.admission.deadline(q))
	defer stop()
	leave, err = s.admission.take(ctx, who, len(all))
	if err != nil {
		s.turnAway(w, r, notLetIn{id: id, who: who, err: err, status: http.StatusTooManyRequests})
		return
	}
	defer leave()
	if from := connectionOf(r); from != nil {
		from.completedRequest()
	}
	if overrides(all) {
		if err := s.world.Approvals.spend(ctx, who, id); err != nil {
			s.turnAway(w, r, notLetIn{id: id, who: who, err: err})
			return
		}
	}
	decided, acts := s.decider.decide(s.letIn(ctx, r), basis, all)
	if err := s.records.writeDown(ctx, basis, request{id: id, who: who, questions: all, decided: decided, acts: acts, took: s.world.Clock().Sub(began)}); err != nil {
		s.turnAway(w, r, notLetIn{id: id, who: who, err: err})
		return
	}
	worst := worstOf(decided)
	if verdict.HTTPStatus(worst) == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	writeJSON(w, verdict.HTTPStatus(worst), api.Answer{Schema: api.SchemaAnswer, RequestID: id, Outcome: worst.String(), Decisions: decided})
}

// letIn continues the trace of an authenticated caller. Trace headers of others
// are ignored, and so are malformed ones: the decision then begins a new trace.
func (s *Server) letIn(ctx context.Context, r *http.Request) context.Context {
	ctx, err := span.Extract(ctx, r.Header)
	if err != nil {
		s.world.Log.DebugContext(ctx, "malformed trace headers of a caller ignored", "error", err.Error())
	}
	return ctx
}

// statusOf returns the status of a rejected request: 429 if a limit is
// exceeded.
func statusOf(err error) int {
	if verdict.FindingOf("", err).Code == verdict.Busy {
		return http.StatusTooManyRequests
	}
	return 0
}

// granted parses the questions and checks each against the book. If one of them
// is not granted, none is answered.
func (s *Server) granted(basis *standing, who caller.Principal, q api.Request) ([]asked, error) {
	all := make([]asked, len(q.Decisions))
	for i, question := range q.Decisions {
		var err error
		if all[i], err = parseQuestion(question); err != nil {
			return nil, err
		}
		if err := basis.Callers.May(who, all[i].act()); err != nil {
			return nil, err
		}
		all[i].caller = who.Name()
	}
	if overrides(all) {
		return all, s.world.Approvals.mayBeUsed(who)
	}
	return all, nil
}

// notLetIn is a rejected request.
type notLetIn struct {
	id     string
	who    caller.Principal
	err    error
	status int // zero means that of the error
	unread bool
}

// turnAway answers a rejected request, and records why.
func (s *Server) turnAway(w http.ResponseWriter, r *http.Request, n notLetIn) {
	f, code := verdict.FindingOf("request", n.err), n.code()
	s.records.tally.turnedAway(f.Code)
	count := int64(1)
	if n.who.Name() == "" {
		count = s.records.strangers.met(f.Code, s.world.Clock())
	}
	if count > 0 {
		s.records.writeNotLetIn(r.Context(), api.Entry{Request: n.id, Principal: n.who.Name(), Code: f.Code, Problem: f.Message, Status: code, Count: count})
	}
	n.answer(w, r)
}

// code is the HTTP status.
func (n notLetIn) code() int {
	outcome := verdict.FindingOf("request", n.err).Code.Outcome()
	switch {
	case outcome == verdict.Unavailable && n.status != http.StatusTooManyRequests:
		return http.StatusServiceUnavailable
	case n.status == 0:
		return verdict.HTTPStatus(outcome)
	}
	return n.status
}

// answer says why a request is rejected, to clients of registries as they
// expect it.
func (n notLetIn) answer(w http.ResponseWriter, r *http.Request) {
	f, code := verdict.FindingOf("request", n.err), n.code()
	if n.unread && r.ContentLength > 0 { // otherwise the server would first wait for the body
		w.Header().Set("Connection", "close")
	}
	scheme, registry := "Bearer", strings.HasPrefix(r.URL.Path, "/v2/")
	if registry {
		scheme = "Basic"
	}
	switch code {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", scheme+` realm="waybill gate"`)
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	}
	if registry {
		writeJSON(w, code, registryErrors(code, f))
		return
	}
	writeJSON(w, code, api.Problem{Schema: api.SchemaAnswer, RequestID: n.id, Outcome: f.Code.Outcome().String(), Problem: f})
}

// worstOf is the outcome of several: a single refusal refuses all, and a single
// unavailable one makes all unavailable.
func worstOf(all []api.Decision) verdict.Outcome {
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

// readAll reads a body up to a size limit.
func readAll(body io.Reader, limit int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(body, limit+1))
	switch {
	case err != nil:
		return nil, malformed("the body is incomplete")
	case int64(len(raw)) > limit:
		return nil, malformed("the body exceeds %d bytes", limit)
	}
	return raw, nil
}
