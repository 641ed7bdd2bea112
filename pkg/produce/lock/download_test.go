package lock_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/produce/lock"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// shelf is a server of one file, and a release.yaml that wants it.
type shelf struct {
	*world
	srv   *httptest.Server
	serve http.HandlerFunc
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{world: newWorld(t), serve: says("firmware")}
	s.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r) }))
	t.Cleanup(s.srv.Close)
	s.wants(t, s.srv.URL+"/firmware-1.bin")
	return s
}

// wants writes a release.yaml with a download.
func (s *shelf) wants(t *testing.T, address string) {
	t.Helper()
	s.write(t, plan.ConfigName, strings.Replace(config, "lists:", "downloads: {firmware.bin: \""+address+"\"}\nlists:", 1))
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

func TestDownloadsAreMeasured(t *testing.T) {
	s := newShelf(t)
	first := find(t, s.update())
	want := plan.DownloadLock{URL: s.srv.URL + "/firmware-1.bin", Size: 8, Digest: digest.Of(digest.SHA256, []byte("firmware"))}
	if got := first.Lock.Downloads["firmware.bin"]; got != want || len(first.Lines) != 7 {
		t.Errorf("pinned as %+v, want %+v; lines %q", got, want, first.Lines)
	}
	if err := first.Write(); err != nil {
		t.Fatal(err)
	}
	// What did not change stays, byte by byte.
	if again := find(t, s.update(again)); !again.IsEmpty() || len(again.Lines) != 0 {
		t.Errorf("the same file differs: %q", again.Lines)
	}
	// What changed is shown, old and new.
	s.serve = says("firmware 2")
	moved := find(t, s.update(again))
	if len(moved.Lines) != 2 || !strings.HasPrefix(moved.Lines[0], "- download firmware.bin ") || !strings.Contains(moved.Lines[1], " 10 bytes sha256:") {
		t.Errorf("another file is shown as %q", moved.Lines)
	}
	s.serve = says("firmware")
	s.wants(t, s.srv.URL+"/firmware-2.bin")
	if moved := find(t, s.update(again)); len(moved.Lines) != 2 || !strings.Contains(moved.Lines[1], "/firmware-2.bin") {
		t.Errorf("another address is shown as %q", moved.Lines)
	}
	s.write(t, plan.ConfigName, config)
	if gone := find(t, s.update(again)); len(gone.Lines) != 1 || !strings.HasPrefix(gone.Lines[0], "- download firmware.bin ") {
		t.Errorf("what is wanted no more is shown as %q", gone.Lines)
	}
}

// TestDownloadsAreTheStoredBytes: an encoding of the way is no part of the
// file.
func TestDownloadsAreTheStoredBytes(t *testing.T) {
	s := newShelf(t)
	s.serve = func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			says("firmware")(w, r)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, "something else")
		_ = z.Close()
	}
	if d := find(t, s.update()).Lock.Downloads["firmware.bin"]; d.Size != 8 {
		t.Errorf("measured %+v", d)
	}
	s.serve = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/there" {
			says("firmware")(w, r)
			return
		}
		http.Redirect(w, r, "/there", http.StatusFound)
	}
	if d := find(t, s.update()).Lock.Downloads["firmware.bin"]; d.Size != 8 || d.URL != s.srv.URL+"/firmware-1.bin" {
		t.Errorf("behind a redirect: %+v", d)
	}
}

func TestDownloadsThatCannotBePinned(t *testing.T) {
	rows := []struct {
		name, says string
		code       verdict.Code
		edit       func(*testing.T, *shelf)
	}{
		{"not there", "no such file (404", verdict.Usage, func(_ *testing.T, s *shelf) { s.serve = http.NotFound }},
		{"gone", "no such file (410", verdict.Usage, func(_ *testing.T, s *shelf) {
			s.serve = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }
		}},
		{"empty", "is empty", verdict.Usage, func(_ *testing.T, s *shelf) { s.serve = says("") }},
		{"forbidden", "403", verdict.PlaceDown, func(_ *testing.T, s *shelf) {
			s.serve = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }
		}},
		{"a part", "206", verdict.PlaceDown, func(_ *testing.T, s *shelf) {
			s.serve = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusPartialContent) }
		}},
		{"cut short", "unexpected EOF", verdict.PlaceDown, func(_ *testing.T, s *shelf) {
			s.serve = func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "9")
				says("firmware")(w, r)
			}
		}},
		{"too large", "more than 17179869184 bytes", verdict.Limit, func(_ *testing.T, s *shelf) {
			s.serve = func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "17179869185") }
		}},
		{"a server that is away", "fetching", verdict.PlaceDown, func(_ *testing.T, s *shelf) { s.srv.Close() }},
		{"a redirect to plain http elsewhere", "plain http on another machine", verdict.Usage, func(_ *testing.T, s *shelf) {
			s.serve = func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://dl.example.test/firmware", http.StatusFound)
			}
		}},
		{"plain http", "want https", verdict.ConfigParse, func(t *testing.T, s *shelf) { s.wants(t, "http://dl.example.test/firmware") }},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			s := newShelf(t)
			if _, err := s.update().Find(t.Context()); err != nil {
				t.Fatalf("the twin that is right: %v", err)
			}
			r.edit(t, s)
			c, err := s.update().Find(t.Context())
			if err == nil || verdict.FindingOf("", err).Code != r.code || !strings.Contains(err.Error(), r.says) {
				t.Errorf("got %v, want %s and %q", err, r.code, r.says)
			}
			if c.Lines != nil || c.Lock.Downloads != nil {
				t.Errorf("an error with a result: %+v", c)
			}
		})
	}
}

// TestPatienceThatIsNone: what is wrong here is not said of the world.
func TestPatienceThatIsNone(t *testing.T) {
	s := newShelf(t)
	head, rest, _ := strings.Cut(config, "lists:")
	_, places, _ := strings.Cut(rest, "places:")
	s.write(t, plan.ConfigName, head+"downloads: {firmware.bin: \""+s.srv.URL+"/firmware-1.bin\"}\nsteps:\n"+
		"- name: show\n  run: [show]\n  take: [firmware.bin]\n  outputs: [{class: file, name: shown}]\nplaces:"+places)
	u := lock.Update{Dir: s.dir, Transport: transport.New(transport.Config{})}
	if l := find(t, u).Lock; len(l.Downloads) != 1 {
		t.Fatalf("the twin: %+v", l)
	}
	t.Setenv(transport.PatienceVariable, "soon")
	u.Transport = transport.New(transport.Config{})
	if _, err := u.Find(t.Context()); err == nil || verdict.FindingOf("", err).Code != verdict.Usage || !strings.Contains(err.Error(), "want a duration") {
		t.Errorf("got %v", err)
	}
}

// TestTwoRootsAreNotLocked: a lock that no plan could use is not written.
func TestTwoRootsAreNotLocked(t *testing.T) {
	w := newWorld(t)
	two := func(u *lock.Update) { u.Tools["sh"] = w.host + "/cross:v1" }
	c, err := w.update(two).Find(t.Context())
	if err == nil || verdict.FindingOf("", err).Code != verdict.ConfigParse || !strings.Contains(err.Error(), "both pinned as images") || c.Lines != nil {
		t.Errorf("got %v, %q", err, c.Lines)
	}
}
