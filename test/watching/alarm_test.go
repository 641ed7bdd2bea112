package watching

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
	honest := w.answer.Load()
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
		if r.URL.Path == "/login" {
			return // a page, with 200
		}
		rw.Header().Set("Location", "/login")
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
	w.down()
	if err := os.WriteFile(filepath.Join(w.State, "alarms.json"), []byte("null"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.pass(t, verdict.PlaceDown)
	expect("an outage, and a file of alarms without any")
	w.answer.Store(honest)
	w.pass(t)
	w.sign(t, lab.RoleRelease, "planted")
	w.pass(t, "LOG_UNEXPLAINED")
	expect("an alarm", "LOG_UNEXPLAINED")
	w.pass(t, "LOG_UNEXPLAINED")
	expect("the same alarm")
	w.sign(t, lab.RoleRelease, "planted too")
	w.pass(t, "LOG_UNEXPLAINED", "LOG_UNEXPLAINED")
	expect("another alarm", "LOG_UNEXPLAINED")

	w.down()
	w.pass(t, verdict.PlaceDown, "LOG_UNEXPLAINED", "LOG_UNEXPLAINED")
	expect("an outage")
	w.answer.Store(honest)
	w.pass(t, "LOG_UNEXPLAINED", "LOG_UNEXPLAINED")
	expect("after a short outage")
	for range 3 {
		w.down()
		w.pass(t, verdict.PlaceDown, "LOG_UNEXPLAINED", "LOG_UNEXPLAINED")
	}
	expect("a long outage", string(verdict.PlaceDown))
	w.answer.Store(honest)

	w.sign(t, lab.RoleRelease, "planted last")
	for _, status := range []int{http.StatusBadRequest, http.StatusFound} {
		answer(status)
		v := w.pass(t, "LOG_UNEXPLAINED", "LOG_UNEXPLAINED", "LOG_UNEXPLAINED", verdict.PlaceDown)
		if last := v.Findings[3]; !strings.Contains(last.Message, "webhook") || strings.Contains(last.Message+last.Subject, "secret") {
			t.Errorf("%+v", last)
		}
		expect(fmt.Sprint("the webhook answers ", status))
	}
	answer(http.StatusOK)
	w.pass(t, "LOG_UNEXPLAINED", "LOG_UNEXPLAINED", "LOG_UNEXPLAINED")
	expect("the webhook answers again", "LOG_UNEXPLAINED")
	hook.Close()
	w.sign(t, lab.RoleRelease, "planted while nothing listens")
	v := w.pass(t, "LOG_UNEXPLAINED", "LOG_UNEXPLAINED", "LOG_UNEXPLAINED", "LOG_UNEXPLAINED", verdict.PlaceDown)
	if last := v.Findings[4]; strings.Contains(last.Message+last.Subject, "secret") {
		t.Errorf("%+v", last)
	}
}

// down lets the log answer nothing.
func (w *world) down() {
	w.answer.Store(func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
}
