package watching

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// TestWebhook: each alarm is posted once, what does not answer only if it lasts, and a post
// that fails is reported and made again.
func TestWebhook(t *testing.T) {
	w := newWorld(t)
	var (
		mu     sync.Mutex // guards posted and status
		posted []string
		status = http.StatusOK
	)
	answer := func(code int) {
		mu.Lock()
		defer mu.Unlock()
		status = code
	}
	hook := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var v verdict.Verdict
		raw, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(raw, &v)
		}
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %v", r.Method, raw, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if rw.WriteHeader(status); status == http.StatusOK {
			for _, f := range v.Findings {
				posted = append(posted, string(f.Code))
			}
		}
	}))
	t.Cleanup(hook.Close)
	w.Webhook = hook.URL + "/a-secret-path"
	expect := func(what string, codes ...string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if strings.Join(posted, " ") != strings.Join(codes, " ") {
			t.Errorf("%s: posted %q, want %q", what, posted, codes)
		}
		posted = nil
	}
	w.release(t, "a", "first")
	w.pass(t)
	expect("no alarm")
	w.sign(t, lab.RoleRelease, "planted")
	w.pass(t, "LOG_UNEXPLAINED")
	expect("an alarm", "LOG_UNEXPLAINED")
	w.pass(t, "LOG_UNEXPLAINED")
	expect("the same alarm")
	w.sign(t, lab.RoleRelease, "planted too")
	w.pass(t, "LOG_UNEXPLAINED", "LOG_UNEXPLAINED")
	expect("another alarm", "LOG_UNEXPLAINED")

	honest := w.answer.Load()
	down := func() {
		w.answer.Store(func(rw http.ResponseWriter, _ *http.Request) bool {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return true
		})
	}
	down()
	w.pass(t, verdict.PlaceDown, "LOG_STALLED", "LOG_UNEXPLAINED", "LOG_UNEXPLAINED")
	expect("an outage")
	w.answer.Store(honest)
	w.pass(t, "LOG_UNEXPLAINED", "LOG_UNEXPLAINED")
	expect("after a short outage")
	for range 3 {
		down()
		w.pass(t, verdict.PlaceDown, "LOG_STALLED", "LOG_UNEXPLAINED", "LOG_UNEXPLAINED")
	}
	expect("a long outage", string(verdict.PlaceDown), "LOG_STALLED")
	w.answer.Store(honest)

	answer(http.StatusBadRequest)
	w.sign(t, lab.RoleRelease, "planted last")
	v := w.pass(t, "LOG_UNEXPLAINED", "LOG_UNEXPLAINED", "LOG_UNEXPLAINED", verdict.PlaceDown)
	if last := v.Findings[3]; !strings.Contains(last.Message, "webhook") || strings.Contains(last.Message+last.Subject, "secret") {
		t.Errorf("%+v", last)
	}
	expect("the webhook fails")
	answer(http.StatusOK)
	w.pass(t, "LOG_UNEXPLAINED", "LOG_UNEXPLAINED", "LOG_UNEXPLAINED")
	expect("the webhook answers again", "LOG_UNEXPLAINED")
	hook.Close()
	w.sign(t, lab.RoleRelease, "planted while nothing listens")
	v = w.pass(t, "LOG_UNEXPLAINED", "LOG_UNEXPLAINED", "LOG_UNEXPLAINED", "LOG_UNEXPLAINED", verdict.PlaceDown)
	if last := v.Findings[4]; strings.Contains(last.Message+last.Subject, "secret") {
		t.Errorf("%+v", last)
	}
}
