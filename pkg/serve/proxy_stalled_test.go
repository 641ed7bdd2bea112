package serve

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestStalledUpload: an upload that stalls, or comes too slowly, is cut
// (UPLOAD_STALLED), and the registry is not blamed. The whole one passes.
func TestStalledUpload(t *testing.T) {
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil && r.Method == http.MethodPut {
			w.WriteHeader(http.StatusCreated)
		}
	}))
	defer behind.Close()
	at, err := registry.OpenRemote(strings.TrimPrefix(behind.URL, "http://"), http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	const size = 4 * leastPart
	whole := strings.Repeat("x", size)
	for what, row := range map[string]struct {
		window time.Duration
		send   func(io.Writer)
		code   verdict.Code
	}{
		"whole":  {time.Hour, func(w io.Writer) { _, _ = io.WriteString(w, whole) }, ""},
		"stalls": {100 * time.Millisecond, func(w io.Writer) { _, _ = io.WriteString(w, whole[:size-1]) }, "UPLOAD_STALLED"},
		"slow": {300 * time.Millisecond, func(w io.Writer) {
			for {
				if _, err := io.WriteString(w, "x"); err != nil {
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
		}, "UPLOAD_STALLED"},
	} {
		t.Run(what, func(t *testing.T) {
			s := &Server{world: &World{Log: slog.New(slog.DiscardHandler)}}
			s.proxying.window = row.window
			ended := make(chan error, 1)
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ended <- s.forward(w, r, &passage{at: at, place: "registry.example.test/a", repo: "a", kind: "blobs/uploads"})
			}))
			defer front.Close()
			conn, err := net.Dial("tcp", strings.TrimPrefix(front.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "PUT /v2/a/blobs/uploads/1 HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", size)
			go row.send(conn)
			err = <-ended
			if row.code == "" {
				answer, unread := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil || unread != nil || answer.StatusCode != http.StatusCreated {
					t.Errorf("%v, %v, %v", err, unread, answer)
				}
			} else if verdict.FindingOf("", err).Code != row.code {
				t.Error(err)
			}
		})
	}
}

// TestBodyEnds: a body that has ended says so each time: the transport reads once
// more after the last byte, and would read forever.
func TestBodyEnds(t *testing.T) {
	const whole = "a small body"
	body := &pacedBody{ReadCloser: io.NopCloser(strings.NewReader(whole)), control: http.NewResponseController(httptest.NewRecorder()), window: time.Hour, left: time.Hour}
	if err := iotest.TestReader(body, []byte(whole)); err != nil {
		t.Error(err)
	}
}

// TestSlowRegistry: the registry may take longer for its answer than the body may
// take to come, and than an answer may take to be written. A body that takes longer
// is cut: see TestStalledUpload.
func TestSlowRegistry(t *testing.T) {
	const limit = 50 * time.Millisecond
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil && r.Method == http.MethodPut {
			select {
			case <-r.Context().Done():
			case <-time.After(4 * limit):
				w.WriteHeader(http.StatusCreated)
			}
		}
	}))
	defer behind.Close()
	at, err := registry.OpenRemote(strings.TrimPrefix(behind.URL, "http://"), http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{world: &World{Log: slog.New(slog.DiscardHandler)}}
	s.proxying.window = limit
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.forward(w, r, &passage{at: at, place: "registry.example.test/a", repo: "a", kind: "blobs/uploads"}); err != nil {
			t.Error(err)
		}
	}))
	front.Config.WriteTimeout = limit
	front.Start()
	defer front.Close()
	conn, err := net.Dial("tcp", strings.TrimPrefix(front.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "PUT /v2/a/blobs/uploads/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody")
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || answer.StatusCode != http.StatusCreated {
		t.Errorf("%v, %v", err, answer)
	}
}
