package faults_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/test/faults"
)

// Rows 25, 27, 28 and 31: the services of signing are busy, slow or away, or do
// what they are asked while their answer is lost. Nothing is public that is not
// recorded, and nothing is in the log twice.
func TestCarryServices(t *testing.T) {
	busy, away := faults.Status(429, "Retry-After", "1"), faults.Status(503)
	carries(t, []failing{
		{"row 25, certificates, asked to wait", atFulcio, one("POST", "", busy), 0, "OK ", 2},
		{"row 25, certificates, a burst", atFulcio, some(faults.Fault{Times: 2, Do: faults.Status(502)}), 0, "OK ", 2},
		{"row 25, no certificates", atFulcio, all("", "", away), 3, "verified=0 required=2", 0},
		{"row 25, certificates hang", atFulcio, all("POST", "", faults.Hangs), 3, "verified=0 required=2", 0},
		{"row 25, certificates are refused", atFulcio, all("POST", "", faults.Status(400)), 1, "verified=0 required=2", 0},
		{"row 27, the log is away", atRekor, all("", "", faults.Status(502)), 3, "verified=0 required=2", 0},
		{"row 27, the log dies in the middle", atRekor, some(faults.Fault{Method: "POST", Skip: 2, Do: faults.Dies}), 3, "verified=0 required=2", 0},
		{"row 28, the answer of the log is lost", atRekor, one("POST", "", faults.DoesAndDies), 0, "OK ", 2},
		{"row 28, every answer of the log is lost", atRekor, all("POST", "", faults.DoesAndDies), 3, "verified=0 required=2", 0},
		{"row 28, the log says that it failed", atRekor, one("POST", "", faults.FailsButDoes(502)), 0, "OK ", 2},
		{"row 29, the log has an endless answer", atRekor, all("POST", "", faults.Endless), 1, "verified=0 required=2", 0},
		{"row 31, timestamps, a burst", atTSA, some(faults.Fault{Times: 2, Do: faults.Status(502)}), 0, "OK ", 2},
		{"row 31, timestamps are cut", atTSA, one("POST", "", faults.Resets), 0, "OK ", 2},
		{"row 31, no timestamps", atTSA, all("", "", away), 3, "verified=0 required=2", 0},
		{"row 31, timestamps hang", atTSA, all("POST", "", faults.Hangs), 3, "verified=0 required=2", 0},
	})
}

// replays gives every request the real answer to the first one: a true answer,
// about something else.
func replays() faults.Act {
	var mu sync.Mutex // owns first
	var first *httptest.ResponseRecorder
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = httptest.NewRecorder()
			next.ServeHTTP(first, r)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		for name, values := range first.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(first.Code)
		_, _ = io.Copy(w, bytes.NewReader(first.Body.Bytes()))
	}
}

// Rows 26, 29 and 31: a service answers rightly, and to somebody else: the
// certificate is of another key, the entry and the timestamp are of another
// signature. What is signed is verified before anybody sees it.
func TestCarryServicesThatLie(t *testing.T) {
	for name, row := range map[string]struct {
		at   func(*carry) *faults.Proxy
		path string
	}{
		"row 26, the certificate of another key":     {atFulcio, ""},
		"row 29, the entry of another signature":     {atRekor, ""},
		"row 31, the timestamp of another signature": {atTSA, ""},
	} {
		t.Run(name, func(t *testing.T) {
			lie := replays()
			honest, c := newCarry(t), newCarry(t)
			row.at(honest).Spoil(faults.Fault{Method: "POST", Times: 1, Do: lie})
			want(t, honest.apply(), 0)
			row.at(c).Spoil(all("POST", row.path, lie)...)
			r := c.hurried()
			if r.Code != 1 && r.Code != 3 || c.sound() != 0 {
				t.Errorf("status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
			}
			t.Logf("status %d: %s", r.Code, firstLine(r.Stderr))
			c.mended()
		})
	}
}

func firstLine(text string) string {
	line, _, _ := bytes.Cut([]byte(text), []byte("\n"))
	return string(line)
}

// Row 35: the token has expired. A fresh one in its place ends it.
func TestCarryTokenExpires(t *testing.T) {
	c, before := newCarry(t), entries(t)
	args := c.args()
	stale, err := staged.Lab.Mint("verifier", map[string]any{"exp": time.Now().Add(-time.Minute).Unix()})
	if err != nil {
		t.Fatal(err)
	}
	c.write(c.place+".verifier", stale)
	r := runWith(t, []string{"XDG_CACHE_HOME=" + staged.Path("cache")}, args...)
	want(t, r, 1, "TOKEN_REFUSED", "the token expired at")
	if n := c.sound(); n != 0 {
		t.Errorf("the image is in %d regions", n)
	}
	c.mended()
	once(t, before, c.made())
}

// Row 57: where what is done is remembered cannot be written. Nothing is done
// then; and row 43, a newer program wrote it.
func TestCarryJournal(t *testing.T) {
	for name, row := range map[string]struct {
		set  func(t *testing.T, c *carry)
		code int
	}{
		"a file in the place of the directory": {func(t *testing.T, c *carry) { c.write(c.state, "") }, 3},
		"a journal that nobody can write": {func(t *testing.T, c *carry) {
			if err := os.MkdirAll(staged.Path(c.state, "promotions.jsonl"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, 3},
		"a journal of a newer program": {func(t *testing.T, c *carry) {
			if err := os.MkdirAll(staged.Path(c.state), 0o755); err != nil {
				t.Fatal(err)
			}
			c.write(filepath.Join(c.state, "promotions.jsonl"), `{"journal":"waybill","version":99}`+"\n")
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			c, before := newCarry(t), entries(t)
			row.set(t, c)
			want(t, c.apply(), row.code, "promotions")
			if n := c.sound(); n != 0 || c.writes(c.registry)+c.writes(c.us) != 0 {
				t.Errorf("the image is in %d regions", n)
			}
			c.forget()
			c.mended()
			once(t, before, c.made())
		})
	}
}
