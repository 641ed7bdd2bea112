package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// breaking serves content and breaks off after some bytes, at first.
func breaking(content []byte, header http.Header, times int, how func(http.ResponseWriter)) (*httptest.Server, *[]string) {
	asked := &[]string{}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.Header.Get("Range"))
		for k, v := range header {
			w.Header()[k] = v
		}
		from := 0
		if r.Header.Get("Range") != "" && header.Get("X-Refuse-Ranges") != "" {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		if n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); n == 1 && header.Get("X-No-Ranges") == "" {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
			w.Header().Set("Content-Length", strconv.Itoa(len(content)-from))
			w.WriteHeader(http.StatusPartialContent)
		} else if header.Get("Transfer-Encoding") == "" {
			from = 0
			w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		}
		if len(*asked) > times {
			_, _ = w.Write(content[from:])
			return
		}
		_, _ = w.Write(content[from : from+(len(content)-from)/2])
		w.(http.Flusher).Flush()
		how(w)
	})), asked
}

func reset(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// Rows 7 and 9: a body that breaks off is continued where it broke, if and only
// if the server says that it is the same.
func TestBrokenBodies(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	tag := http.Header{"Etag": {`"one"`}}
	for _, c := range []struct {
		name   string
		header http.Header
		times  int
		whole  bool
		asked  int
	}{
		{"once", tag, 1, true, 2},
		{"three times", tag, 3, true, 4},
		{"for ever", tag, 100, false, 1 + continuations},
		{"by the digest of a registry", http.Header{"Docker-Content-Digest": {"sha256:00"}}, 1, true, 2},
		{"without ranges", http.Header{"Etag": {`"one"`}, "X-No-Ranges": {"1"}}, 1, true, 2},
		{"ranges refused", http.Header{"Etag": {`"one"`}, "X-Refuse-Ranges": {"1"}}, 1, true, 3},
		{"without a version", http.Header{}, 1, false, 1},
		{"weak version", http.Header{"Etag": {`W/"one"`}}, 1, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv, asked := breaking(content, c.header, c.times, reset)
			defer srv.Close()
			rt := quick(Config{})
			resp, err := Client(rt).Get(srv.URL)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if whole := err == nil && bytes.Equal(got, content); whole != c.whole || len(*asked) != c.asked {
				t.Errorf("%d of %d bytes, %v, after %q", len(got), len(content), err, *asked)
			}
			if err != nil && !bytes.HasPrefix(content, got) {
				t.Error("bytes that are not the content were delivered")
			}
		})
	}
}

func TestAnotherVersionIsNotContinued(t *testing.T) {
	content := bytes.Repeat([]byte("x"), 65536)
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n++
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, n))
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		if n == 1 {
			_, _ = w.Write(content[:100])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(content)
	}))
	defer srv.Close()
	resp, err := Client(quick(Config{})).Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err == nil || len(got) > 100 {
		t.Errorf("%d bytes of two versions, %v", len(got), err)
	}
}

// A body without a length and without chunks ends when the connection does,
// however that came.
func TestEndThatProvesNothing(t *testing.T) {
	for _, c := range []struct {
		name, header string
		ok           bool
	}{{"closed", "Connection: close\r\n\r\n", false}, {"with a length", "Content-Length: 5\r\n\r\n", true}} {
		t.Run(c.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				fmt.Fprintf(conn, "HTTP/1.0 200 OK\r\n%shello", c.header)
				conn.Close()
			}))
			defer srv.Close()
			resp, err := Client(quick(Config{})).Get(srv.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			var endless *EndlessError
			if errors.As(err, &endless) == c.ok || string(got) != "hello" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// What libraries read whole has a limit; what a reader of ours expects has not.
func TestAnswersHaveALimit(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/error" {
			w.WriteHeader(http.StatusTeapot)
		}
		for range 70 {
			_, _ = w.Write(make([]byte, 1<<20))
		}
	}))
	defer srv.Close()
	for _, c := range []struct {
		method, path string
		ok           bool
	}{{"GET", "/", true}, {"POST", "/", false}, {"GET", "/error", false}} {
		req, _ := http.NewRequest(c.method, srv.URL+c.path, strings.NewReader(""))
		resp, err := Client(quick(Config{})).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		var limit *LimitError
		if errors.As(err, &limit) == c.ok {
			t.Errorf("%s %s: %v", c.method, c.path, err)
		}
	}
}

func TestRepeatablePost(t *testing.T) {
	for name, c := range map[string]struct {
		rt   func(http.RoundTripper) http.RoundTripper
		want int
	}{
		"as it is": {func(rt http.RoundTripper) http.RoundTripper { return rt }, 502},
		"marked":   {Repeatable, 200},
		"if others": {func(rt http.RoundTripper) http.RoundTripper {
			return RepeatableIf(rt, func(*http.Request) bool { return false })
		}, 502},
	} {
		var sent []string
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			_, header := r.Header["Idempotency-Key"]
			if sent = append(sent, string(b)); len(sent) == 1 || header {
				w.WriteHeader(502)
			}
		}))
		resp, err := Client(c.rt(quick(Config{}))).Post(srv.URL, "text/plain", strings.NewReader("question"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want || sent[len(sent)-1] != "question" {
			t.Errorf("%s: status %d after %q", name, resp.StatusCode, sent)
		}
		srv.Close()
	}
}

func TestEveryRequestSaysWhoAsks(t *testing.T) {
	var seen []string
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = append(seen, r.UserAgent()) }))
	defer srv.Close()
	rt := New(Config{UserAgent: "waybill/1"})
	for _, theirs := range []string{"", "library/2", "waybill/1"} {
		req, _ := http.NewRequest("GET", srv.URL, nil)
		req.Header.Set("User-Agent", theirs)
		resp, err := Client(rt).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if strings.Join(seen, ",") != "waybill/1,waybill/1 library/2,waybill/1" {
		t.Errorf("asked as %q", seen)
	}
}
