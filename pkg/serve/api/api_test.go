package api_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const image = "staging.example.test/demo@sha256:0000000000000000000000000000000000000000000000000000000000000000"

// yes is an answer that accepts.
func yes(t *testing.T) api.Answer {
	t.Helper()
	v := verdict.New("image", time.Now())
	v.Counts.Required, v.Counts.Verified = 1, 1
	v.Proofs = []verdict.Proof{{Subject: image, Bundle: digest.Of(digest.SHA256, []byte("a bundle"))}}
	return api.Answer{Schema: api.SchemaAnswer, RequestID: "a", Outcome: "accepted", Decisions: []api.Decision{{Image: image, Outcome: "accepted", Verdict: v}}}
}

// TestDecide: an answer is a yes only if it says so everywhere.
func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		change func(*api.Answer)
		raw    string
		want   verdict.Outcome // Undecided: no error
		yes    bool
	}{
		{"yes", 200, func(*api.Answer) {}, "", verdict.Undecided, true},
		{"no", 403, func(a *api.Answer) {
			a.Outcome, a.Decisions[0].Outcome = "refused", "refused"
			a.Decisions[0].Verdict.Add(verdict.Find(verdict.Unsigned, image, "it is not signed"))
		}, "", verdict.Undecided, false},
		{"yes with the status of a no", 403, func(*api.Answer) {}, "", verdict.Unavailable, false},
		{"no with the status of a yes", 200, func(a *api.Answer) {
			a.Outcome, a.Decisions[0].Outcome = "refused", "refused"
			a.Decisions[0].Verdict.Add(verdict.Find(verdict.Unsigned, image, "it is not signed"))
		}, "", verdict.Unavailable, false},
		{"yes with a finding", 200, func(a *api.Answer) {
			a.Decisions[0].Verdict.Add(verdict.Find(verdict.Unsigned, image, "it is not signed"))
		}, "", verdict.Unavailable, false},
		{"yes to a no", 200, func(a *api.Answer) {
			a.Decisions[0].Outcome = "refused"
			a.Decisions[0].Verdict.Add(verdict.Find(verdict.Unsigned, image, "it is not signed"))
		}, "", verdict.Unavailable, false},
		{"yes that counts nothing", 200, func(a *api.Answer) { a.Decisions[0].Verdict.Counts = verdict.Counts{} }, "", verdict.Unavailable, false},
		{"yes to something else", 200, func(a *api.Answer) { a.Decisions[0].Image = "other" }, "", verdict.Unavailable, false},
		{"yes to nothing", 200, func(a *api.Answer) { a.Decisions = nil }, "", verdict.Unavailable, false},
		{"yes without a verdict", 200, func(a *api.Answer) { a.Decisions[0].Verdict = nil }, "", verdict.Unavailable, false},
		{"yes in another format", 200, func(a *api.Answer) { a.Schema = "waybill/decisions/v0" }, "", verdict.Unavailable, false},
		{"another page", 200, nil, "<html>ok</html>", verdict.Unavailable, false},
		{"nothing", 200, nil, "", verdict.Unavailable, false},
		{"not granted", 403, nil, `{"schema":"waybill/decisions/v1","outcome":"refused","problem":{"code":"NOT_GRANTED","subject":"a","message":"b","fix":"c"}}`, verdict.Refused, false},
		{"too much", 429, nil, `{"schema":"waybill/decisions/v1","outcome":"refused","problem":{"code":"BUSY","subject":"a","message":"b","fix":"c"}}`, verdict.Unavailable, false},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer secret" || r.URL.Path != "/v1/decisions" {
				w.WriteHeader(http.StatusTeapot)
			}
			w.WriteHeader(c.status)
			if c.change == nil {
				_, _ = io.WriteString(w, c.raw)
				return
			}
			a := yes(t)
			c.change(&a)
			_ = json.NewEncoder(w).Encode(a)
		}))
		client, err := api.New(srv.URL, http.DefaultTransport, func(context.Context) (string, error) { return "secret", nil })
		if err != nil {
			t.Fatal(err)
		}
		a, err := client.Decide(t.Context(), []api.Question{{Verb: api.Verify, Image: image}})
		if verdict.OutcomeOf(err) != c.want || a.Accepted() != c.yes {
			t.Errorf("%s: %v, accepted: %v", c.name, err, a.Accepted())
		}
		srv.Close()
	}
}

// TestAskedAgain: a question without an answer is sent again, but not an
// override, because its token is single-use.
func TestAskedAgain(t *testing.T) {
	for verb, want := range map[api.Verb]int64{api.Verify: 2, api.Override: 1} {
		var asked atomic.Int64
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if asked.Add(1) == 1 {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			_ = json.NewEncoder(w).Encode(yes(t))
		}))
		client, err := api.New(srv.URL, transport.New(transport.Config{}), nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := client.Decide(t.Context(), []api.Question{{Verb: verb, Image: image}})
		if n := asked.Load(); n != want || a.Accepted() != (want == 2) || err != nil && verdict.OutcomeOf(err) != verdict.Unavailable {
			t.Errorf("%s: asked %d times, want %d; accepted: %v, %v", verb, n, want, a.Accepted(), err)
		}
		srv.Close()
	}
}

// TestNoTimeToAskAgain: a gate that says that nothing was decided, and when to
// come again, has said why; who has no time for that is told so.
func TestNoTimeToAskAgain(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		a := yes(t)
		a.Outcome, a.Decisions[0].Outcome = "unavailable", "unavailable"
		a.Decisions[0].Verdict.Add(verdict.Find(verdict.PlaceDown, image, "its summary could not be signed"))
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(http.StatusServiceUnavailable)
		_ = json.NewEncoder(w).Encode(a)
	}))
	defer srv.Close()
	client, err := api.New(srv.URL, transport.New(transport.Config{}), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 4*time.Second)
	defer stop()
	a, err := client.Decide(ctx, []api.Question{{Verb: api.Promote, Image: image, To: "prod.example.test/demo"}})
	if err != nil || len(a.Decisions) != 1 || len(a.Decisions[0].Verdict.Findings) != 1 || a.Accepted() {
		t.Errorf("what it said is lost: %+v, %v", a, err)
	}
}

// TestNew: a gate is asked over https, or on this machine.
func TestNew(t *testing.T) {
	for address, good := range map[string]bool{
		"https://gate.example.test": true, "http://127.0.0.1:8443": true, "http://gate.example.test": false, "gate.example.test": false,
		"": false, "https://user@gate.example.test": false, "https://gate.example.test?x=y": false, strings.Repeat("x", 10): false,
	} {
		if _, err := api.New(address, http.DefaultTransport, nil); (err == nil) != good {
			t.Errorf("%q: %v", address, err)
		}
	}
}
