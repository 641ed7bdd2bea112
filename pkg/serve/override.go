package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Ledger is where used approvals are written down: one place for all replicas
// of a service, which can write what is not there yet and nothing else. The
// zero Ledger is none.
type Ledger struct {
	store.Place
	store.Writer
}

func (l Ledger) isZero() bool { return l.Place == nil || l.Writer == nil }

// used is what is written of an approval that was used.
type used struct {
	Schema  string    `json:"schema"`
	Caller  string    `json:"caller"`
	Request string    `json:"request"`
	Until   time.Time `json:"until"` // from when on it need not be kept
}

const (
	schemaUsed = "waybill/used-approval/v1"
	maxUsed    = 4 << 10
)

// nameOf is the name under which the use of a token is written.
func nameOf(t caller.Shown) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d %s %s", len(t.Issuer), t.Issuer, t.ID) // the length keeps the two apart
	return "used/" + hex.EncodeToString(h.Sum(nil)) + ".json"
}

// spend uses up the token of a request that is to override. Of several that
// show the same one, at whatever replica and after whatever restart, one gets
// through. Where it cannot be told whether it was used nothing is decided.
func (l Ledger) spend(ctx context.Context, who caller.Principal, request string) error {
	t := who.Shown()
	raw, err := json.Marshal(used{schemaUsed, who.Name(), request, t.Until.UTC()})
	if err != nil {
		return err
	}
	name := nameOf(t)
	switch _, err := store.Read(ctx, l, name, maxUsed); { // a directory that is not mounted does not answer, and is not made
	case err == nil:
		return replayed()
	case !errors.Is(err, store.ErrNotFound):
		return unspent(l, err)
	}
	err = l.Put(ctx, name, int64(len(raw)), bytes.NewReader(raw), store.PutOptions{IfAbsent: true, MediaType: "application/json"})
	if !errors.Is(err, store.ErrExists) {
		return unspent(l, err)
	}
	// A write whose answer was lost, and that was sent again, finds itself.
	there, err := store.Read(ctx, l, name, maxUsed)
	switch {
	case err != nil:
		return unspent(l, err)
	case !bytes.Equal(there, raw):
		return replayed()
	}
	return nil
}

func replayed() error {
	return verdict.Refuse(verdict.Replay, "token", "it was used for an override before")
}

// unspent is why it is not known whether a token was used; nil for nil.
func unspent(at Ledger, err error) error {
	if err == nil {
		return nil
	}
	return &verdict.UnavailableError{Place: at.URI(), Op: "writing down that an approval is used", Err: err}
}

// Check reports whether the features were read, and the places that the service
// writes to answer. It is for who starts it: one that does not answer later is
// unavailable, each time.
func (s *Server) Check(ctx context.Context) error {
	if err := s.features.known(s.basis.Load().switched); err != nil {
		return err
	}
	if s.world.Approvals.isZero() {
		return nil
	}
	_, err := store.Read(ctx, s.world.Approvals, nameOf(caller.Shown{}), maxUsed)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return unspent(s.world.Approvals, err)
}

// mayBeUsed refuses a request to override that could be sent twice, or that
// nobody could tell from one that was.
func (l Ledger) mayBeUsed(who caller.Principal) error {
	switch {
	case l.isZero():
		return verdict.Refuse(verdict.NotGranted, who.Name(), "this gate serves no overrides: it has no place to write down which were used").
			Advise("have the gate's operators name one, as approvals: PLACE in the service's file")
	case who.Shown().ID == "":
		return verdict.Refuse(verdict.Replay, "token", "it has no ID (jti), so it could be used without end")
	}
	return nil
}

func overrides(all []asked) bool {
	return slices.ContainsFunc(all, func(a asked) bool { return a.Verb == api.Override })
}

// exceptions verifies the exceptions that a question brings, by the policy and
// the trust root of this gate. Each has to hold: whoever sends it means it.
func exceptions(basis *standing, a asked) ([]waiver.Exception, error) {
	var all []waiver.Exception
	for i, raw := range a.Exceptions {
		about := "exception " + strconv.Itoa(i+1)
		e, err := basis.Verifier.Attestation(raw)
		var x waiver.Exception
		if err == nil {
			x, err = waiver.ParseException(e, basis.Policy)
		}
		if err != nil {
			f := verdict.FindingOf(about, err)
			f.Subject = about
			return nil, &verdict.Error{Finding: f, Cause: err}
		}
		all = append(all, x)
	}
	return all, nil
}

// checkExceptions refuses exceptions that are none, too many, or not asked for.
func checkExceptions(q api.Question) error {
	switch n := len(q.Exceptions); {
	case q.Verb != api.Override && n > 0:
		return wrong("exceptions: they are for the verb override, not for %.50q", string(q.Verb))
	case q.Verb == api.Override && n == 0, n > api.MaxExceptions:
		return wrong("%d exceptions: want from 1 to %d", n, api.MaxExceptions)
	}
	for _, raw := range q.Exceptions {
		if len(raw) == 0 || len(raw) > api.MaxException {
			return wrong("an exception of %d bytes: want a bundle of %d at most", len(raw), api.MaxException)
		}
	}
	return nil
}

// excepting are the waivers of a question: those of the basis, and what it
// brings.
func (basis *standing) excepting(a asked) (gate.Waivers, error) {
	w := basis.Waivers
	if a.Verb != api.Override {
		return w, nil
	}
	var err error
	w.Exceptions, err = exceptions(basis, a)
	return w, err
}
