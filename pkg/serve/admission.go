package serve

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// admission authenticates callers, and limits their requests: for each caller,
// and in total.
type admission struct {
	world  *World
	limits Limits

	keys    keyring
	clients authorities
	rates   rates
	slots   slots
	waiting shares // requests of a caller that wait or are processed
	reading shares // requests of a caller whose body is being read
	bodies  shares // bounds the bodies read at a time
}

// admit accepts a caller who may ask for decisions, is within the rate limit,
// and does not have too many requests waiting. The body has not been read yet.
func (a *admission) admit(ctx context.Context, basis *standing, who caller.Principal) (leave func(), err error) {
	if err := basis.Callers.MayAsk(who); err != nil {
		return nil, err
	}
	if err := a.spendRate(who, 0); err != nil {
		return nil, err
	}
	return a.waiting.tryEnter(who.Name())
}

// spendRate charges n decisions to a caller's rate; with n of 0 it only checks
// whether any are left.
func (a *admission) spendRate(who caller.Principal, n int) error {
	if !a.rates.take(who.Name(), n) {
		return verdict.Refuse(verdict.Busy, who.Name(), "the caller exceeds its rate of %d decisions per second", a.limits.PerCaller).Advise(askLater)
	}
	return nil
}

// readInTurn reads a request when memory for its body is free. Each caller is
// limited to a part, so a slow sender delays only itself.
func (a *admission) readInTurn(ctx context.Context, r *http.Request, q request) (reading, error) {
	leave, err := a.reading.enter(ctx, q.who.Name())
	if err != nil {
		return reading{}, err
	}
	defer leave()
	leaveAll, err := a.bodies.enter(ctx, "")
	if err != nil {
		return reading{}, err
	}
	defer leaveAll()
	raw, err := a.readBody(r)
	if err != nil {
		return reading{}, err
	}
	return q.read(q.basis, q.who, r, raw)
}

// take waits for a slot, and charges n decisions to a caller's rate.
func (a *admission) take(ctx context.Context, who caller.Principal, n int) (leave func(), err error) {
	if leave, err = a.slots.enter(ctx); err != nil {
		return nil, err
	}
	if err := a.spendRate(who, n); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// identify authenticates the caller: by the certificate of the connection, or
// by the one token of the request. No other part of the request identifies a
// caller; one without either is the caller nameless, if the configuration has one.
func (a *admission) identify(ctx context.Context, r *http.Request, basis *standing, nameless string) (caller.Principal, error) {
	tokens := r.Header.Values("Authorization")
	if len(tokens) == 0 && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		now := a.world.Clock()
		if err := a.clients.verify(r.TLS.PeerCertificates, now); err != nil {
			return caller.Principal{}, err
		}
		return basis.Callers.Certificate(r.TLS.VerifiedChains[0][0], now)
	}
	if len(tokens) == 0 && nameless != "" {
		return basis.Callers.Named(nameless)
	}
	if len(tokens) != 1 {
		return caller.Principal{}, verdict.Refuse(verdict.TokenParse, "request", "the request needs one Authorization header or a client certificate")
	}
	scheme, token, found := strings.Cut(tokens[0], " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return caller.Principal{}, verdict.Refuse(verdict.TokenParse, "request", "the Authorization header must be: Bearer TOKEN")
	}
	now := a.world.Clock()
	if who, known := basis.tokens.find(token, now); known {
		return who, nil
	}
	who, err := a.verify(ctx, basis, token)
	if err == nil {
		basis.tokens.keep(token, who, now)
	}
	return who, err
}

// verify authenticates the owner of a token with the keys of its issuer.
func (a *admission) verify(ctx context.Context, basis *standing, token string) (caller.Principal, error) {
	issuer, err := basis.Callers.Issuer(token)
	if err != nil {
		return caller.Principal{}, err
	}
	keys, err := a.keys.keysOf(ctx, issuer, false)
	if err != nil {
		return caller.Principal{}, err
	}
	who, err := basis.Callers.Token(token, keys, a.world.Clock())
	if verdict.FindingOf("", err).Code == verdict.TokenKey && err != nil { // issuers rotate their keys
		if keys, err := a.keys.keysOf(ctx, issuer, true); err == nil {
			return basis.Callers.Token(token, keys, a.world.Clock())
		}
	}
	return who, err
}

// readBody reads a whole request. Compressed ones are refused: their expanded
// size is unbounded.
func (a *admission) readBody(r *http.Request) ([]byte, error) {
	if r.Header.Get("Content-Encoding") != "" {
		return nil, malformed("Content-Encoding: want none")
	}
	if len(r.TransferEncoding) > 0 { // exactly one way to declare the length is accepted
		return nil, malformed("Transfer-Encoding: want none, and a Content-Length")
	}
	return readAll(r.Body, a.limits.Body)
}

func (a *admission) parseRequest(raw []byte) (q api.Request, err error) {
	if err := strictjson.Unmarshal(raw, &q, strictjson.MaxSize(a.limits.Body)); err != nil {
		return api.Request{}, malformed("%v", err)
	}
	switch {
	case q.Schema != api.SchemaRequest:
		return api.Request{}, malformed("schema %.100q: want %s", q.Schema, api.SchemaRequest)
	case len(q.Decisions) == 0 || len(q.Decisions) > a.limits.batch():
		return api.Request{}, malformed("decisions: want from 1 to %d, got %d", a.limits.batch(), len(q.Decisions))
	case q.TimeoutSeconds < 0:
		return api.Request{}, malformed("timeoutSeconds: want 1 or more, or leave it out")
	}
	return q, nil
}

// deadline is when a request must be answered: shortly before the caller gives
// up, so that it receives the answer "not decided".
func (a *admission) deadline(wait time.Duration) time.Duration {
	if wait <= 0 {
		return a.limits.Deadline
	}
	return min(a.limits.Deadline, wait-wait/10)
}
