package transport

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

func TestRedirectKeepsCredentialsAtHome(t *testing.T) {
	var seen http.Header
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Header }))
	defer other.Close()
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/near":
			http.Redirect(w, r, "/here", http.StatusFound)
		case "/here":
			seen = r.Header
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		}
	}))
	defer home.Close()
	for _, c := range []struct {
		path string
		kept bool
	}{{"/away", false}, {"/near", true}} {
		req, _ := http.NewRequest("GET", home.URL+c.path, nil)
		req.Header.Set("Authorization", "Bearer secret")
		req.Header.Set("X-Token", "secret")
		req.Header.Set("Accept", "text/plain")
		resp, err := Client(New(Config{})).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := seen.Get("Authorization") != "" && seen.Get("X-Token") != ""; got != c.kept {
			t.Errorf("%s: credentials arrived: %v, want %v", c.path, got, c.kept)
		}
		if seen.Get("Accept") != "text/plain" {
			t.Errorf("%s: a harmless header was lost", c.path)
		}
	}
	_, err := Client(New(Config{})).Get(home.URL + "/round")
	var refused *RedirectError
	if !errors.As(err, &refused) {
		t.Errorf("redirects in a circle: %v, want a RedirectError", err)
	}
}

func TestCheckRedirect(t *testing.T) {
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"https://a.example/", "https://b.example/", true},
		{"https://a.example/", "http://a.example/", false},
		{"http://a.example/", "https://a.example/", true},
		{"https://a.example/", "https://169.254.169.254/", false},
		{"https://a.example/", "https://127.0.0.1/", false},
		{"https://a.example/", "https://localhost/", false},
		{"https://a.example/", "https://0.0.0.0/", false},
		{"https://a.example/", "https://10.1.2.3/", false},
		{"https://a.example/", "https://[::ffff:127.0.0.1]/", false},
		{"https://a.example/", "https://[fe80::1%25eth0]/", false},
		{"https://a.example/", "https://[fd00::1]/", false},
		{"http://127.0.0.1:1/", "http://127.0.0.1:2/", true},
		{"https://10.1.2.3/", "https://10.1.2.4/", true},
		{"http://127.0.0.1:1/", "http://169.254.169.254/", false},
		{"http://a.example/", "http://a.example/there", true},
		{"http://127.0.0.1:1/", "http://10.1.2.3/", false},
		{"http://127.0.0.1:1/", "http://a.example/", false},
		{"http://127.0.0.1:1/", "https://a.example/", true},
		{"http://127.0.0.1:1/", "http://localhost:2/", true},
	} {
		from, err := url.Parse(c.from)
		if err != nil {
			t.Fatal(err)
		}
		to, err := url.Parse(c.to)
		if err != nil {
			t.Fatal(err)
		}
		got := checkRedirect(&http.Request{URL: to}, []*http.Request{{URL: from}})
		if (got == nil) != c.ok {
			t.Errorf("%s to %s: %v, want followed %v", c.from, c.to, got, c.ok)
		}
	}
}
