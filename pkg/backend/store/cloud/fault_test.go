package cloud_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// uploads spoils uploads, the first n of them.
func uploads(n int, spoil func(w http.ResponseWriter, r *http.Request, next http.Handler)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		seen := 0
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				next.ServeHTTP(w, r)
				return
			}
			if seen++; seen > n {
				next.ServeHTTP(w, r)
				return
			}
			spoil(w, r, next)
		})
	}
}

// taken answers an upload as if it had been taken.
func taken(w http.ResponseWriter, r *http.Request, _ http.Handler) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"kind":"storage#object","bucket":"rel","name":"v1/f","generation":"1","size":"4"}`)
}

// Rows 3 to 5: an upload that fails is sent again where it is bound to what was
// there, or found done; one that was lost is noticed.
func TestUploadsThatGoWrong(t *testing.T) {
	fails := func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(503) }
	failsButDoes := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(httptest.NewRecorder(), r)
		w.WriteHeader(503)
	}
	other := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		raw, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(bytes.Replace(raw, []byte("good"), []byte("evil"), 1)))
		next.ServeHTTP(w, r)
	}
	for _, c := range []struct {
		name    string
		spoil   func(http.Handler) http.Handler
		replace bool
		want    string
	}{
		{"nothing (twin)", uploads(0, fails), false, ""},
		{"fails once", uploads(1, fails), false, ""},
		{"fails once, not bound", uploads(1, fails), true, "UNAVAILABLE"},
		{"fails always", uploads(99, fails), false, "UNAVAILABLE"},
		{"fails once, and is there", uploads(1, failsButDoes), false, "FILE_CONFLICT"}, // who asked compares the bytes
		{"fails, and is there, not bound", uploads(1, failsButDoes), true, ""},
		{"is lost", uploads(99, taken), false, "UNAVAILABLE"},
		{"holds other bytes", uploads(1, other), false, "UNAVAILABLE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := cloud.OpenWriter(serveThrough(t, c.spoil), transport.New(transport.Config{Patience: 300 * time.Millisecond}))
			if err != nil {
				t.Fatal(err)
			}
			err = w.Put(t.Context(), "f", 4, strings.NewReader("good"), store.PutOptions{IfAbsent: !c.replace})
			var coded interface{ Code() string }
			got := ""
			if errors.As(err, &coded) {
				got = coded.Code()
			}
			if got != c.want || (err == nil) != (c.want == "") {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// A service that ignores the condition of the first write of the check, and answers the
// second: a failure says nothing about conditions.
func TestConditionsThatAreIgnored(t *testing.T) {
	for name, c := range map[string]struct {
		second func(w http.ResponseWriter)
		want   verdict.Code
	}{
		"refuses the second": {func(w http.ResponseWriter) {
			http.Error(w, `{"error":{"code":412,"message":"exists"}}`, http.StatusPreconditionFailed)
		}, ""},
		"fails at the second":  {func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }, verdict.PlaceDown},
		"denies the second":    {func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) }, verdict.PlaceDown},
		"ignores both of them": {nil, verdict.NotWritable},
	} {
		t.Run(name, func(t *testing.T) {
			seen := 0
			spoil := func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch r.Method {
					case http.MethodDelete:
						w.WriteHeader(http.StatusNoContent)
						return
					case http.MethodPost:
						if seen++; seen > 1 && c.second != nil {
							c.second(w)
							return
						}
						query := r.URL.Query()
						query.Del("ifGenerationMatch")
						r.URL.RawQuery = query.Encode()
					}
					next.ServeHTTP(w, r)
				})
			}
			w, err := cloud.OpenWriter(serveThrough(t, spoil), transport.New(transport.Config{Patience: 300 * time.Millisecond}))
			if err != nil {
				t.Fatal(err)
			}
			err = w.(store.Prober).MayWrite(t.Context())
			if got := verdict.FindingOf("", err).Code; (err == nil) != (c.want == "") || err != nil && got != c.want {
				t.Errorf("%v (%s), want %q", err, got, c.want)
			}
		})
	}
}

// The machine's own account is asked for through the transport like all else.
func TestMachineIsAskedThroughTheTransport(t *testing.T) {
	asked := ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path + " " + r.Header.Get("Metadata-Flavor") + " " + r.UserAgent()
		w.Header().Set("Metadata-Flavor", "Google")
		_, _ = io.WriteString(w, `{"access_token":"secret","expires_in":60,"token_type":"Bearer"}`)
	}))
	defer srv.Close()
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	t.Setenv("CLOUDSDK_CONFIG", t.TempDir())
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(srv.URL, "http://"))
	bearer := ""
	rt := through(func(req *http.Request) (*http.Response, error) {
		if req.URL.Host == "storage.googleapis.com" {
			bearer = req.Header.Get("Authorization")
			return nil, errors.New("refused by the test")
		}
		return transport.New(transport.Config{UserAgent: "waybill/test"}).RoundTrip(req)
	})
	b, err := cloud.Open("gs://bucket/v1/", rt)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.List(t.Context())
	var down *verdict.UnavailableError
	if !errors.As(err, &down) || asked != "/computeMetadata/v1/instance/service-accounts/default/token Google waybill/test" || bearer != "Bearer secret" {
		t.Errorf("asked %q, then with %q: %v", asked, bearer, err)
	}
}

type through func(*http.Request) (*http.Response, error)

func (f through) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
