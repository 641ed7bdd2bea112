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

// Ledger records used override tokens: one place for all replicas of a service,
// which needs to create objects and nothing else. The zero Ledger is none.
type Ledger struct {
	store.Place
	store.Writer
}

func (l Ledger) isZero() bool { return l.Place == nil || l.Writer == nil }

// used is the record of a used token.
type used struct {
	Schema  string    `json:"schema"`
	Caller  string    `json:"caller"`
	Request string    `json:"request"`
	Until   time.Time `json:"until"` // when the record may be deleted
}

const (
	schemaUsed = "waybill/used-approval/v1"
	maxUsed    = 4 << 10
)

// nameOf returns the object name for the use of a token.
func nameOf(t caller.Shown) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d %s %s", len(t.Issuer), t.Issuer, t.ID) // the length makes the two parts unambiguous
	return "used/" + hex.EncodeToString(h.Sum(nil)) + ".json"
}

// spend uses up the token of an override request. If several requests use one
// token, at any replica and after any restart, one succeeds. If the use cannot
// be determined, the decision is unavailable.
func (l Ledger) spend(ctx context.Context, who caller.Principal, request string) error {
	t := who.Shown()
	raw, err := json.Marshal(used{schemaUsed, who.Name(), request, t.Until.UTC()})
	if err != nil {
		return err
	}
	name := nameOf(t)
	switch _, err := store.Read(ctx, l, name, maxUsed); { // the read fails for a directory that is not mounted, so that it is not created
	case err == nil:
		return replayed()
	case !errors.Is(err, store.ErrNotFound):
		return unspent(l, err)
	}
	err = l.Put(ctx, name, int64(len(raw)), bytes.NewReader(raw), store.PutOptions{IfAbsent: true, MediaType: "application/json"})
	if !errors.Is(err, store.ErrExists) {
		return unspent(l, err)
	}
	// A write that was repeated because its answer was lost finds its own
	// object.
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
	return verdict.Refuse("REPLAY", "token", "the token was already used for an override")
}

// unspent is why it is unknown whether a token was used; nil for nil.
func unspent(at Ledger, err error) error {
	if err == nil {
		return nil
	}
	return &verdict.UnavailableError{Place: at.URI(), Op: "recording the use of an override token", Err: err}
}

// Check reports whether the features were read, and whether the places that the
// service writes to answer. It is for the start of the service; later failures
// make each request unavailable.
func (s *Server) Check(ctx context.Context) error {
	if err := s.features.checkKnown(s.basis.Load().switched); err != nil {
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

// mayBeUsed refuses an override request whose token could be used twice.
func (l Ledger) mayBeUsed(who caller.Principal) error {
	switch {
	case l.isZero():
		return verdict.Refuse(verdict.NotGranted, who.Name(), "this gate serves no overrides: it has no place to record used tokens").
			Advise("ask the gate's operators to set approvals: PLACE in its configuration")
	case who.Shown().ID == "":
		return verdict.Refuse("REPLAY", "token", "the token has no ID (jti), so a repeated use could not be detected")
	}
	return nil
}

func overrides(all []asked) bool {
	return slices.ContainsFunc(all, func(a asked) bool { return a.Verb == api.Override })
}

// exceptions verifies the exceptions of a question with the policy and trust
// root of this gate. All must be valid, because all were sent on purpose.
func exceptions(basis *standing, a asked) (all []waiver.Exception, err error) {
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

// checkExceptions refuses invalid, unexpected, or too many exceptions.
func checkExceptions(q api.Question) error {
	switch n := len(q.Exceptions); {
	case q.Verb != api.Override && n > 0:
		return malformed("exceptions: only allowed with the verb override, not with %.50q", string(q.Verb))
	case q.Verb == api.Override && n == 0, n > api.MaxExceptions:
		return malformed("exceptions: want from 1 to %d, got %d", api.MaxExceptions, n)
	}
	for _, raw := range q.Exceptions {
		if len(raw) == 0 || len(raw) > api.MaxException {
			return malformed("exceptions: a bundle of %d bytes, want from 1 to %d", len(raw), api.MaxException)
		}
	}
	return nil
}

// excepting returns the waivers of a question: those of the basis, and its own
// exceptions.
func (basis *standing) excepting(a asked) (gate.Waivers, error) {
	w := basis.Waivers
	if a.Verb != api.Override {
		return w, nil
	}
	var err error
	w.Exceptions, err = exceptions(basis, a)
	return w, err
}
