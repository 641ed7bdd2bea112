package signing

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func contents(t testing.TB, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// ways in which a service is away.
func ways() map[string]func(call) (*http.Response, error) {
	return map[string]func(call) (*http.Response, error){
		"refuses":  func(call) (*http.Response, error) { return nil, errors.New("connection refused") },
		"502":      func(call) (*http.Response, error) { return says(http.StatusBadGateway, "proxy") },
		"429":      func(call) (*http.Response, error) { return says(http.StatusTooManyRequests, "slowly") },
		"hangs up": cutOff,
	}
}

// cutOff has the service act, and loses its answer on the way.
func cutOff(c call) (*http.Response, error) {
	if r, err := c.pass(); err == nil {
		_ = r.Body.Close()
	}
	return nil, errors.New("connection reset")
}

// TestOutage: each service in turn is away for almost an hour, in each way,
// while ten things are to be signed; all of them are, once. Nobody waits longer
// than there is patience.
func TestOutage(t *testing.T) {
	w := newWorld(t)
	for _, service := range []string{"fulcio", "tsa", "rekor"} {
		for way, away := range ways() {
			for _, long := range []time.Duration{59 * time.Minute, 61 * time.Minute} {
				t.Run(service+" "+way+" "+long.String(), func(t *testing.T) {
					token := w.token
					w := worldOf(t, w.Lab)
					w.token = token
					before, until := len(w.Logged()), w.now().Add(long)
					m := w.meddler(func(c call) (*http.Response, error) {
						if c.service == service && w.now().Before(until) {
							return away(c)
						}
						return c.pass()
					})
					all, keep := gather(t)
					list := orders(t, 10)
					for i := range list[1:] { // nothing that another case has signed
						list[1+i].Bytes = file(before*1000 + i)
					}
					s := w.signer(t, m, patient, keeping(t, journalIn(t)))
					err := s.Each(t.Context(), list, keep)
					if long > time.Hour {
						refused(t, err, verdict.PlaceDown)
						if !strings.Contains(w.told(), "giving up") {
							t.Errorf("told: %s", w.told())
						}
						return
					}
					if err != nil || len(all) != 10 {
						t.Fatalf("%d signed, %v", len(all), err)
					}
					if got := len(w.Logged()) - before; got != 10 {
						t.Errorf("%d entries for 10 signatures", got)
					}
					if told := w.told(); strings.Count(told, "waiting for") < 20 || !strings.Contains(told, "is reachable again") {
						t.Errorf("told: %s", told)
					}
					if calls := m.to(service); calls > 250 {
						t.Errorf("a service that was away for an hour was asked %d times", calls)
					}
				})
			}
		}
	}
}

// TestLapsed: the timestamp authority is away for longer than a certificate
// lives. What was signed with it proves nothing, so it is signed anew.
func TestLapsed(t *testing.T) {
	w := newWorld(t)
	until := w.now().Add(25 * time.Minute)
	m := w.meddler(func(c call) (*http.Response, error) {
		if c.service == "tsa" && w.now().Before(until) {
			return says(http.StatusServiceUnavailable, "")
		}
		return c.pass()
	})
	all, keep := gather(t)
	if err := w.signer(t, m, patient).Each(t.Context(), orders(t, 5), keep); err != nil || len(all) != 5 {
		t.Fatalf("%d signed, %v", len(all), err)
	}
	if got := m.to("fulcio"); got < 2 || got > 4 {
		t.Errorf("%d certificates for 25 minutes", got)
	}
	if !strings.Contains(w.told(), "signing anew") || len(w.Logged()) != 5 {
		t.Errorf("%d entries; told: %s", len(w.Logged()), w.told())
	}
}

// TestRetryAfter: who says when to come again is not asked before.
func TestRetryAfter(t *testing.T) {
	w := newWorld(t)
	begun := w.now()
	m := w.meddler(func(c call) (*http.Response, error) {
		if c.service != "rekor" || w.now().Sub(begun) > 10*time.Minute {
			return c.pass()
		}
		r, err := says(http.StatusTooManyRequests, "")
		r.Header.Set("Retry-After", "620")
		return r, err
	})
	if _, _, err := w.signer(t, m, patient).Blob(t.Context(), file(1)); err != nil {
		t.Fatal(err)
	}
	if got := m.to("rekor"); got != 2 {
		t.Errorf("asked %d times", got)
	}
	m = w.meddler(func(c call) (*http.Response, error) {
		r, err := says(http.StatusTooManyRequests, "")
		r.Header.Set("Retry-After", "3601")
		return r, err
	})
	begun = w.now()
	_, _, err := w.signer(t, m, patient).Blob(t.Context(), file(2))
	refused(t, err, verdict.PlaceDown)
	if m.to("fulcio") != 1 || w.now().Sub(begun) > time.Minute {
		t.Error("waited for somebody who asks for more patience than there is")
	}
}

// TestEach: one certificate for all, never more under way than was said, equal
// content signed once, and nothing asked for an order that may not be signed.
func TestEach(t *testing.T) {
	w := newWorld(t)
	m := w.honest()
	list := append(orders(t, 40), orders(t, 40)...)
	all, keep := gather(t)
	few := func(c *sign.Config) { c.Work.Workers = 4 }
	s := w.signer(t, m, few)
	if err := s.Each(t.Context(), list, keep); err != nil || len(all) != 80 {
		t.Fatalf("%d signed, %v", len(all), err)
	}
	if m.to("fulcio") != 1 || m.to("rekor") != 40 || m.most > 4 || len(w.Logged()) != 40 {
		t.Errorf("%d certificates, %d requests to the log, %d at a time", m.to("fulcio"), m.to("rekor"), m.most)
	}
	if all[0].Bundle() != all[40].Bundle() || s.Tally() != (sign.Tally{Made: 40, Entries: 40}) {
		t.Errorf("equal content was signed twice: %+v", s.Tally())
	}
	if !strings.Contains(w.told(), "signed 80 of 80") {
		t.Errorf("told: %s", w.told())
	}
	for name, bad := range map[string][]sign.Order{
		"nothing":      nil,
		"an empty one": {{Bytes: file(1)}, {}},
		"provenance":   {{Bytes: file(1)}, {Statement: provenance(t)}},
		"both":         {{Bytes: file(1), Statement: said(t, 1)}},
	} {
		m := w.honest()
		if err := w.signer(t, m).Each(t.Context(), bad, keep); err == nil || m.all != 0 {
			t.Errorf("%s: %v, after %d requests", name, err, m.all)
		}
	}
	full := errors.New("disk full")
	kept := 0
	err := w.signer(t, w.honest(), few).Each(t.Context(), orders(t, 30), func(int, []byte, verifyEvidence) error {
		if kept++; kept == 3 {
			return full
		}
		return nil
	})
	if !errors.Is(err, full) || kept != 3 || !strings.Contains(err.Error(), "2 of 30") {
		t.Errorf("kept %d, %v", kept, err)
	}
}

// TestNotWorthWaiting: what will be the same in an hour is said at once.
func TestNotWorthWaiting(t *testing.T) {
	w := newWorld(t)
	somebody := httptest.NewUnstartedServer(http.NotFoundHandler())
	somebody.Config.ErrorLog = log.New(io.Discard, "", 0)
	somebody.StartTLS()
	defer somebody.Close()
	elsewhere := func(c *sign.Config) { c.Services.Fulcio = somebody.URL }
	offline := func(c *sign.Config) { c.Transport = transport.New(transport.Config{Offline: true}) }
	astray := w.meddler(func(call) (*http.Response, error) {
		r, err := says(http.StatusTemporaryRedirect, "")
		r.Header.Set("Location", "http://example.test/")
		return r, err
	})
	for name, s := range map[string]*sign.Signer{
		"offline":                  w.signer(t, w.honest(), patient, offline),
		"somebody else's name":     w.signer(t, oneWay, patient, elsewhere),
		"a redirect to plain http": w.signer(t, astray, patient),
	} {
		begun := w.now()
		_, _, err := s.Blob(t.Context(), file(1))
		refused(t, err, verdict.PlaceDown)
		if w.now().Sub(begun) > time.Minute {
			t.Errorf("%s: waited for %s", name, w.now().Sub(begun))
		}
	}
}
