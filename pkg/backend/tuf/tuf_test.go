package tuf_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/backend/tuf"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/testing/faketuf"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func TestCheckURL(t *testing.T) {
	for _, row := range []struct {
		url string
		ok  bool
	}{
		{"https://tuf.example.test", true},
		{"https://tuf.example.test/repository/", true},
		{"http://127.0.0.1:8080", true},
		{"http://localhost:8080/tuf", true},
		{"http://tuf.example.test", false},
		{"http://10.0.0.1", false},
		{"http://127.0.0.1.example.test", false},
		{"https://user:secret@tuf.example.test", false},
		{"https://tuf.example.test/?a=b", false},
		{"https://tuf.example.test/#a", false},
		{"file:///etc", false},
		{"https://", false},
		{"tuf.example.test", false},
		{"", false},
		{"https://tuf.example.test\x00", false},
	} {
		err := tuf.CheckURL(row.url)
		if (err == nil) != row.ok {
			t.Errorf("%q: %v, want accepted %t", row.url, err, row.ok)
		}
		if err != nil && (verdict.FindingOf("", err).Code != verdict.Usage || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%q: %v", row.url, err)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	r := faketuf.New(t, now)
	for _, row := range []struct {
		name string
		act  func(*tuf.Config)
		code verdict.Code
	}{
		{"no time", func(c *tuf.Config) { c.Now = time.Time{} }, verdict.InternalBug},
		{"no transport", func(c *tuf.Config) { c.Transport = nil }, verdict.InternalBug},
		{"no address", func(c *tuf.Config) { c.URL = "" }, verdict.Usage},
		{"no root", func(c *tuf.Config) { c.Root = nil }, verdict.TUFParse},
		{"a root that signs itself not", func(c *tuf.Config) {
			c.Root = []byte(strings.Replace(string(c.Root), `"version":1`, `"version":2`, 1))
		}, "TUF_THRESHOLD"},
		{"a timestamp for a root", func(c *tuf.Config) { c.Root = r.File("timestamp.json") }, verdict.TUFParse},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := config(t, r)
			row.act(&c)
			got, err := tuf.Refresh(t.Context(), c)
			refused(t, got, err, row.code)
		})
	}
}

func TestPublicGoodIsDated(t *testing.T) {
	source := tuf.PublicGood()
	offline := transport.New(transport.Config{Offline: true})
	c := tuf.Config{URL: source.URL, Root: source.Root, Transport: offline, Now: trust.Embedded().Date().AddDate(0, 0, -1)}
	got, err := tuf.Refresh(t.Context(), c)
	refused(t, got, err, verdict.Clock)
	c.Now = trust.Embedded().Date()
	got, err = tuf.Refresh(t.Context(), c)
	refused(t, got, err, verdict.TrustDown)
	if !errors.Is(err, transport.ErrOffline) {
		t.Errorf("offline: %v", err)
	}
}

// Neither a file that stops half way nor one that never begins holds a client up.
func TestSlowRepositoryIsUnavailable(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"it never answers": func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() },
		"it begins and stops": func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.WriteString(w, "{")
			w.(http.Flusher).Flush()
			<-req.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, c := trusted(t)
			c.Patience = 30 * time.Millisecond
			r.Publish(nil)
			r.Answer("3.targets.json", answer)
			got, err := tuf.Refresh(t.Context(), c)
			refused(t, got, err, verdict.TrustDown)
			r.Answer("3.targets.json", nil)
			c.Patience = 0
			refresh(t, c)
		})
	}
}

func TestInterruptionIsNotAVerdict(t *testing.T) {
	r, c := trusted(t)
	ctx, cancel := context.WithCancel(t.Context())
	r.Answer("timestamp.json", func(_ http.ResponseWriter, req *http.Request) {
		cancel()
		<-req.Context().Done()
	})
	_, err := tuf.Refresh(ctx, c)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// No header of ours tells the repository, or whoever it redirects to, anything.
func TestNoCredentialsLeave(t *testing.T) {
	r, c := trusted(t)
	r.Publish(nil)
	var seen []http.Header
	note := func(w http.ResponseWriter, req *http.Request) {
		seen = append(seen, req.Header.Clone())
		_, _ = w.Write(r.File("timestamp.json"))
	}
	mirror := httptest.NewServer(http.HandlerFunc(note))
	defer mirror.Close()
	r.Answer("timestamp.json", func(w http.ResponseWriter, req *http.Request) {
		seen = append(seen, req.Header.Clone())
		http.Redirect(w, req, mirror.URL+"/timestamp.json", http.StatusFound)
	})
	refresh(t, c)
	if len(seen) != 2 {
		t.Fatalf("%d requests were seen", len(seen))
	}
	for _, header := range seen {
		for name := range header {
			if name != "User-Agent" && name != "Accept-Encoding" && name != "Referer" {
				t.Errorf("header %s: %q", name, header[name])
			}
		}
	}
}

// Who comes first among delegations is believed.
func TestDelegationsAreAskedInOrder(t *testing.T) {
	r := faketuf.New(t, now)
	r.Delegate("first", []string{"*.json"}, false, map[string][]byte{tuf.TrustedRootFile: []byte("first")})
	r.Delegate("second", []string{"*.json"}, false, map[string][]byte{tuf.TrustedRootFile: []byte("second")})
	r.Publish(nil)
	c := config(t, r)
	if got := refresh(t, c); string(got.TrustedRoot()) != "first" {
		t.Errorf("believed the %s", got.TrustedRoot())
	}
	if got, err := tuf.Load(t.Context(), c); err != nil || string(got.TrustedRoot()) != "first" {
		t.Errorf("from the cache the %s, %v", got.TrustedRoot(), err)
	}
	r.Publish(map[string][]byte{tuf.TrustedRootFile: []byte("top")})
	if got := refresh(t, c); string(got.TrustedRoot()) != "top" {
		t.Errorf("believed the %s", got.TrustedRoot())
	}
}

// Roles that delegate without end are not followed without end.
func TestTooManyDelegations(t *testing.T) {
	for _, row := range []struct {
		roles int
		code  verdict.Code
	}{{40, verdict.Limit}, {10, "TUF_TARGET"}} {
		r := faketuf.New(t, now)
		for i := range row.roles {
			r.Delegate("role"+strings.Repeat("x", i), []string{"*.json"}, false, nil)
		}
		r.Publish(nil)
		got, err := tuf.Refresh(t.Context(), config(t, r))
		refused(t, got, err, row.code)
	}
}

func TestSigningConfigIsOptional(t *testing.T) {
	r := faketuf.New(t, now)
	r.Publish(map[string][]byte{tuf.TrustedRootFile: []byte("a root")})
	c := config(t, r)
	if got := refresh(t, c); got.File(tuf.SigningConfigFile) != nil {
		t.Errorf("signing configuration %q", got.File(tuf.SigningConfigFile))
	}
	c.Files = []string{tuf.SigningConfigFile}
	got, err := tuf.Refresh(t.Context(), c)
	refused(t, got, err, "TUF_TARGET")
}

// A name with dots cannot leave the cache: no name is ever a path in it.
func TestNamesAreNotPaths(t *testing.T) {
	r := faketuf.New(t, now)
	name := "../../escaped.json"
	r.Delegate("../../role", []string{"*/*/*"}, false, map[string][]byte{name: []byte("x")})
	r.Publish(nil)
	c := config(t, r)
	c.Cache = filepath.Join(c.Cache, "a", "b")
	c.Files = []string{name}
	_, _ = tuf.Refresh(t.Context(), c) // found or not: nothing may be written outside
	err := filepath.WalkDir(filepath.Dir(filepath.Dir(c.Cache)), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Dir(path) != c.Cache {
			t.Errorf("%q was written", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSourceIsRemembered(t *testing.T) {
	r := faketuf.New(t, now)
	r.Publish(map[string][]byte{tuf.TrustedRootFile: []byte("a root")})
	c := config(t, r)
	if got, err := tuf.Remembered(c.Cache); err != nil || got.URL != tuf.PublicGoodURL {
		t.Fatalf("an empty cache remembers %q, %v", got.URL, err)
	}
	if _, err := tuf.Init(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	got, err := tuf.Remembered(c.Cache)
	if err != nil || got.URL != c.URL || string(got.Root) != string(c.Root) {
		t.Errorf("remembered %q, %v", got.URL, err)
	}
	write(t, c, "source.json", []byte(`{"url":`))
	if got, err := tuf.Remembered(c.Cache); err == nil || verdict.FindingOf("", err).Code != verdict.ConfigParse {
		t.Errorf("a damaged source is %q, %v", got.URL, err)
	}
}

// Initialising again is the operator's own act: with the same root nothing is
// forgotten, with another everything; and if it fails nothing changes.
func TestInitAgain(t *testing.T) {
	r, c := trusted(t)
	old := r.Files()
	r.Publish(nil)
	if _, err := tuf.Init(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	newest := r.Files()
	r.Serve(old)
	got, err := tuf.Init(t.Context(), c)
	refused(t, got, err, verdict.TUFRollback)
	r.Serve(newest)
	other := faketuf.New(t, now)
	c2 := config(t, other)
	c2.Cache = c.Cache
	got, err = tuf.Init(t.Context(), c2)
	refused(t, got, err, "TUF_TARGET")
	if source, err := tuf.Remembered(c.Cache); err != nil || source.URL != c.URL {
		t.Errorf("after a failed init it remembers %q, %v", source.URL, err)
	}
	if _, err := tuf.Load(t.Context(), c); err != nil {
		t.Errorf("after a failed init: %v", err)
	}
	other.Publish(map[string][]byte{tuf.TrustedRootFile: []byte("another")})
	if got, err := tuf.Init(t.Context(), c2); err != nil || string(got.TrustedRoot()) != "another" {
		t.Errorf("%q, %v", got.TrustedRoot(), err)
	}
	if got, err := tuf.Load(t.Context(), c2); err != nil || string(got.TrustedRoot()) != "another" {
		t.Errorf("%q, %v", got.TrustedRoot(), err)
	}
}
