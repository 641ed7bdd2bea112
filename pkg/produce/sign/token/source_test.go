package token

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// surroundings are a world with an environment and a clock that stands.
func surroundings(env map[string]string) World {
	return World{
		Transport: transport.New(transport.Config{Attempts: 1}),
		Env:       func(name string) string { return env[name] },
		Clock:     func() time.Time { return now },
	}
}

// serving is a server on loopback.
func serving(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// clouds answers as the services of GitHub Actions and of Google do.
func clouds(t *testing.T) http.HandlerFunc {
	token := living(t)
	return func(w http.ResponseWriter, r *http.Request) {
		google := r.Header.Get(flavor) == "Google"
		account := strings.HasPrefix(r.URL.Path, "/computeMetadata/v1/instance/service-accounts/default/")
		if account && google {
			w.Header().Set(flavor, "Google")
		}
		switch {
		case r.URL.Path == "/actions" && r.URL.Query().Get("audience") == "sigstore" && r.URL.Query().Get("api-version") == "2" && r.Header.Get("Authorization") == "Bearer "+secret:
			fmt.Fprintf(w, `{"count":1,"value":%q}`, token)
		case account && google && strings.HasSuffix(r.URL.Path, "/identity") && r.URL.Query().Get("audience") == "sigstore" && r.URL.Query().Get("format") == "full":
			fmt.Fprintln(w, token)
		case account && google && strings.HasSuffix(r.URL.Path, "/token"):
			fmt.Fprintf(w, `{"access_token":%q,"expires_in":3599,"token_type":"Bearer"}`, secret)
		case r.Method == http.MethodPost && r.URL.Path == "/v1/projects/-/serviceAccounts/release@project.example.test:generateIdToken" && r.Header.Get("Authorization") == "Bearer "+secret:
			fmt.Fprintf(w, `{"token":%q}`, token)
		default:
			http.Error(w, "no "+secret, http.StatusForbidden)
		}
	}
}

// around is the environment in which a server is every service.
func around(s *httptest.Server) map[string]string {
	host, _ := url.Parse(s.URL)
	return map[string]string{
		githubURL: s.URL + "/actions?api-version=2", githubBearer: secret,
		googleHostVar: host.Host, credentialsVar: s.URL,
	}
}

func TestSources(t *testing.T) {
	want := living(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(want+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := around(serving(t, clouds(t)))
	env[gitlabToken], env[kubernetesVar] = want, file
	for _, word := range []string{"github", "gitlab", "google", "google:release@project.example.test", "kubernetes", "kubernetes:" + file, "file:" + file, "ambient"} {
		s, err := Parse(word, surroundings(env))
		if err != nil {
			t.Errorf("%s: %v", word, err)
			continue
		}
		if got, err := s.Token(t.Context()); err != nil || got != want {
			t.Errorf("%s: a token of %d bytes, %v", word, len(got), err)
		}
		if s.String() == "" || strings.Contains(s.String(), secret) {
			t.Errorf("%s: is called %q", word, s)
		}
	}
}

// TestSourcesSayNo: each way in which each service can fail. No error quotes
// what was sent or answered, and only a service that is away is unavailable.
func TestSourcesSayNo(t *testing.T) {
	answers := map[string]struct {
		answer http.HandlerFunc
		down   bool
	}{
		"forbidden": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, secret, http.StatusForbidden) }, false},
		"away":      {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, secret, http.StatusBadGateway) }, true},
		"busy":      {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, secret, http.StatusTooManyRequests) }, true},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9999")
			fmt.Fprint(w, secret)
		}, true},
		"hung up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
		"no JSON": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, secret) }, false},
		"nothing": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"other":%q}`, secret) }, false},
		"not a text": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"value":[%q],"token":{"a":%q}}`, secret, secret)
		}, false},
		"endless":  {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat(secret, maxToken)) }, false},
		"a portal": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "<html>%s", secret) }, false},
	}
	var all sync.WaitGroup // all at once, for each waits for its retries
	defer all.Wait()
	for name, a := range answers {
		env := around(serving(t, a.answer))
		for _, word := range []string{"github", "google", "google:release@project.example.test"} {
			all.Go(func() {
				s, err := Parse(word, surroundings(env))
				if err != nil {
					t.Error(err)
					return
				}
				got, err := s.Token(t.Context())
				if err == nil || got != "" {
					t.Errorf("%s, %s: gave %d bytes, %v", word, name, len(got), err)
					return
				}
				if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), secret) {
					t.Errorf("%s, %s: the error tells the secret", word, name)
				}
				if down := verdict.OutcomeOf(err) == verdict.Unavailable; down != a.down {
					t.Errorf("%s, %s: unavailable %t, want %t: %v", word, name, down, a.down, err)
				}
			})
		}
	}
}

func TestNothingAround(t *testing.T) {
	asked := serving(t, func(http.ResponseWriter, *http.Request) { t.Error("somebody was asked") })
	w := surroundings(map[string]string{githubURL: asked.URL, kubernetesVar: filepath.Join(t.TempDir(), "none")})
	w.Login = func(string, string) { t.Error("a person was asked") }
	w.Issuer = asked.URL
	if s, err := Parse("ambient", w); isGoogle() != (err == nil) || err != nil && !strings.Contains(err.Error(), "no file "+w.Env(kubernetesVar)+" (Kubernetes)") {
		t.Errorf("%v, %v, on a Google machine: %t", s, err, isGoogle())
	}
	for _, word := range []string{"github", "gitlab", "kubernetes", "file:" + t.TempDir()} {
		s, err := Parse(word, w)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Token(t.Context()); verdict.OutcomeOf(err) != verdict.Malformed {
			t.Errorf("%s: %v", word, err)
		}
	}
	for _, word := range []string{"", "circle", "google:", "google:nobody", "google:a@b/../c", "file:", "Ambient"} {
		if s, err := Parse(word, w); verdict.OutcomeOf(err) != verdict.Malformed {
			t.Errorf("%q: %v, %v", word, s, err)
		}
	}
}

func TestFileIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for _, c := range []struct{ content, want string }{{"one\n", "one"}, {" two ", "two"}, {"\n", ""}, {strings.Repeat("x", maxToken+1), ""}} {
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := File(path).Token(t.Context())
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%.20q: %.20q, %v", c.content, got, err)
		}
	}
}

// counting gives out tokens, each of which lives an hour.
type counting struct {
	t     *testing.T
	clock *time.Time
	asked atomic.Int32
	away  bool
}

func (c *counting) Token(context.Context) (string, error) {
	c.asked.Add(1)
	if c.away {
		return "", unavailable("nowhere", errors.New("no answer"))
	}
	return made(c.t, map[string]any{"jti": c.asked.Load(), "exp": c.clock.Add(time.Hour).Unix()}), nil
}

func (*counting) String() string { return "a counter" }

// TestKept: a token is replaced when half of its life has passed, and outlives
// whoever gives them out for the other half.
func TestKept(t *testing.T) {
	clock := now
	source := &counting{t: t, clock: &clock}
	kept := keep(source, func() time.Time { return clock })
	for _, step := range []struct {
		after time.Duration
		away  bool
		asked int32
		ok    bool
	}{
		{0, false, 1, true},
		{29 * time.Minute, false, 1, true},
		{2 * time.Minute, false, 2, true},
		{31 * time.Minute, true, 3, true},
		{28 * time.Minute, true, 4, true},
		{time.Minute, true, 5, false},
		{0, false, 6, true},
		{0, false, 6, true},
	} {
		clock, source.away = clock.Add(step.after), step.away
		_, err := kept.Token(t.Context())
		if (err == nil) != step.ok || source.asked.Load() != step.asked {
			t.Errorf("after %s: %v, asked %d times, want %d", step.after, err, source.asked.Load(), step.asked)
		}
	}
}
