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

// admission recognises callers, and bounds what they may ask for: each of them,
// and all together.
type admission struct {
	world  *World
	limits Limits

	keys    keyring
	clients authorities
	rates   rates
	slots   slots
	waiting shares // requests of a caller that wait or are dealt with
	reading shares // requests of a caller whose body is read
	bodies  shares // bounds what is read at the same time
}

// admit lets in a caller who may ask for something, who has not asked for too
// much lately, and who is not waiting for too much already. Nothing of the
// request was read then.
func (a *admission) admit(ctx context.Context, basis *standing, who caller.Principal) (leave func(), err error) {
	if err := basis.Callers.MayAsk(who); err != nil {
		return nil, err
	}
	if err := a.spendRate(who, 0); err != nil {
		return nil, err
	}
	return a.waiting.tryEnter(who.Name())
}

// spendRate takes n decisions from what a caller may ask for; none only asks
// whether any are left.
func (a *admission) spendRate(who caller.Principal, n int) error {
	if !a.rates.take(who.Name(), n) {
		return verdict.Refuse(verdict.Busy, who.Name(), "it asks more than %d decisions a second", a.limits.PerCaller).Advise(askLater)
	}
	return nil
}

// readInTurn reads a request when there is room for its bytes. A caller has a
// part of the room: whoever sends slowly holds up nobody else.
func (a *admission) readInTurn(ctx context.Context, r *http.Request, who caller.Principal) (api.Request, error) {
	leave, err := a.reading.enter(ctx, who.Name())
	if err != nil {
		return api.Request{}, err
	}
	defer leave()
	leaveAll, err := a.bodies.enter(ctx, "")
	if err != nil {
		return api.Request{}, err
	}
	defer leaveAll()
	return a.readRequest(r)
}

// take waits for a slot, and takes n decisions from what a caller may ask for.
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

// identify recognises who asks: by the certificate of the connection, or by the
// one token of the request. Nothing else that a request says of itself counts.
func (a *admission) identify(ctx context.Context, r *http.Request, basis *standing) (caller.Principal, error) {
	tokens := r.Header.Values("Authorization")
	if len(tokens) == 0 && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		now := a.world.Clock()
		if err := a.clients.verify(r.TLS.PeerCertificates, now); err != nil {
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

// verify recognises who shows a token by the keys of its issuer.
func (a *admission) verify(ctx context.Context, basis *standing, token string) (caller.Principal, error) {
	issuer, err := basis.Callers.Issuer(token)
	if err != nil {
		return caller.Principal{}, err
	}
	keys, err := a.keys.of(ctx, issuer, false)
	if err != nil {
		return caller.Principal{}, err
	}
	who, err := basis.Callers.Token(token, keys, a.world.Clock())
	if verdict.FindingOf("", err).Code == verdict.TokenKey && err != nil { // issuers change their keys
		if keys, err := a.keys.of(ctx, issuer, true); err == nil {
			return basis.Callers.Token(token, keys, a.world.Clock())
		}
	}
	return who, err
}

// readRequest reads a request whole. Compressed ones are not taken: what they
// would become is not bounded by what they are.
func (a *admission) readRequest(r *http.Request) (api.Request, error) {
	if r.Header.Get("Content-Encoding") != "" {
		return api.Request{}, wrong("Content-Encoding: want none")
	}
	if len(r.TransferEncoding) > 0 { // there is one way to say where a request ends
		return api.Request{}, wrong("Transfer-Encoding: want none, and a Content-Length")
	}
	raw, err := readAll(r.Body, a.limits.Body)
	if err != nil {
		return api.Request{}, err
	}
	var q api.Request
	if err := strictjson.Unmarshal(raw, &q, strictjson.MaxSize(a.limits.Body)); err != nil {
		return api.Request{}, wrong("%v", err)
	}
	switch {
	case q.Schema != api.SchemaRequest:
		return api.Request{}, wrong("schema %.100q: want %s", q.Schema, api.SchemaRequest)
	case len(q.Decisions) == 0 || len(q.Decisions) > a.limits.batch():
		return api.Request{}, wrong("%d decisions: want from 1 to %d", len(q.Decisions), a.limits.batch())
	case q.TimeoutSeconds < 0:
		return api.Request{}, wrong("timeoutSeconds: want none, or a number from 1")
	}
	return q, nil
}

// deadline is when a request is answered at the latest: somewhat before the
// caller goes away, so that it is told that nothing was decided.
func (a *admission) deadline(q api.Request) time.Duration {
	if q.TimeoutSeconds == 0 {
		return a.limits.Deadline
	}
	theirs := time.Duration(min(q.TimeoutSeconds, int(time.Hour/time.Second))) * time.Second
	return min(a.limits.Deadline, theirs-theirs/10)
}
