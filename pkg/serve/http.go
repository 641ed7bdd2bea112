package serve

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// routes are the paths for callers. All other paths and spellings are not
// found.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/decisions", s.asked(s.readQuestions, ""))
	if c := s.world.Cluster; c != nil {
		mux.HandleFunc("POST /v1/cluster/images", s.asked(s.readImages, c.Caller))
		mux.HandleFunc("POST /v1/cluster/trace", s.asked(readTrace, c.Caller))
	}
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

// reading is a request whose body was read.
type reading struct {
	questions []asked
	wait      time.Duration // how long the caller waits; zero if it did not say
	answer    func(ctx context.Context, id string, decided []api.Decision) (status int, body any)
}

// reader reads the body of a request of one kind.
type reader func(basis *standing, who caller.Principal, r *http.Request, raw []byte) (reading, error)

// asked answers requests that a reader reads. A request without a credential is
// that of the caller nameless; without one it is rejected.
func (s *Server) asked(read reader, nameless string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		began, basis, id := s.world.Clock(), s.basis.Load(), rand.Text()
		w.Header().Set("Waybill-Request-Id", id)
		ctx, stop := context.WithTimeout(r.Context(), s.limits.Deadline)
		defer stop()
		who, err := s.admission.identify(ctx, r, basis, nameless)
		if err != nil {
			s.turnAway(w, r, notLetIn{id: id, err: err, status: http.StatusUnauthorized})
			return
		}
		s.answer(ctx, w, r, request{id: id, who: who, basis: basis, began: began, read: read})
	}
}

// answer answers a request of a caller.
func (s *Server) answer(ctx context.Context, w http.ResponseWriter, r *http.Request, q request) {
	reject := func(err error, status int, unread bool) {
		s.turnAway(w, r, notLetIn{id: q.id, who: q.who, err: err, status: status, unread: unread})
	}
	leave, err := s.admission.admit(ctx, q.basis, q.who)
	if err != nil {
		reject(err, statusOf(err), true)
		return
	}
	defer leave()
	read, err := s.admission.readInTurn(ctx, r, q)
	if err != nil {
		reject(err, statusOf(err), statusOf(err) != 0)
		return
	}
	q.questions = read.questions
	ctx, stop := context.WithTimeout(ctx, s.admission.deadline(read.wait))
	defer stop()
	leave, err = s.admission.take(ctx, q.who, len(q.questions))
	if err != nil {
		reject(err, http.StatusTooManyRequests, false)
		return
	}
	defer leave()
	if from := connectionOf(r); from != nil {
		from.completedRequest()
	}
	if overrides(q.questions) {
		if err := s.world.Approvals.spend(ctx, q.who, q.id); err != nil {
			reject(err, 0, false)
			return
		}
	}
	ctx = s.letIn(ctx, r)
	q.decided, q.acts = s.decider.decide(ctx, q.basis, q.questions)
	q.took = s.world.Clock().Sub(q.began)
	if err := s.records.writeDown(ctx, q); err != nil {
		reject(err, 0, false)
		return
	}
	status, body := read.answer(ctx, q.id, q.decided)
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	writeJSON(w, status, body)
}

// readQuestions reads POST /v1/decisions.
func (s *Server) readQuestions(basis *standing, who caller.Principal, _ *http.Request, raw []byte) (reading, error) {
	q, err := s.admission.parseRequest(raw)
	if err != nil {
		return reading{}, err
	}
	all, err := s.granted(basis, who, q)
	wait := time.Duration(min(q.TimeoutSeconds, int(time.Hour/time.Second))) * time.Second
	return reading{all, wait, func(_ context.Context, id string, decided []api.Decision) (int, any) {
		worst := worstOf(decided)
		return verdict.HTTPStatus(worst), api.Answer{Schema: api.SchemaAnswer, RequestID: id, Outcome: worst.String(), Decisions: decided}
	}}, err
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
		if isRead(r) { // who pulls did not make the image
			f = f.For(verdict.Consumer)
		}
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
