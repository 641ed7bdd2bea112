package token

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// loginServer is an issuer where somebody logs in by a device code.
func loginServer(t *testing.T, answers ...string) (w World, issued *string) {
	t.Helper()
	challenge := ""
	issued = new(string)
	s := serving(t, func(http.ResponseWriter, *http.Request) {})
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			_ = json.NewEncoder(w).Encode(map[string]string{"issuer": s.URL, "device_authorization_endpoint": s.URL + "/device", "token_endpoint": s.URL + "/token"})
		case "/device":
			challenge = r.PostForm.Get("code_challenge")
			fmt.Fprintf(w, `{"device_code":%q,"user_code":"ABCD-EFGH","verification_uri":"https://id.example.test/device","expires_in":300,"interval":5}`, secret)
		case "/token":
			sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
			if r.PostForm.Get("device_code") != secret || base64.RawURLEncoding.EncodeToString(sum[:]) != challenge {
				t.Error("who collects is not who asked")
			}
			if len(answers) > 0 {
				answer := answers[0]
				if len(answers) > 1 {
					answers = answers[1:]
				}
				if answer != "" {
					w.WriteHeader(http.StatusBadRequest)
					fmt.Fprintf(w, `{"error":%q,"error_description":%q}`, answer, secret)
					return
				}
			}
			fmt.Fprintf(w, `{"access_token":%q,"id_token":%q}`, secret, *issued)
		}
	})
	w = surroundings(nil)
	w.Issuer = s.URL
	return w, issued
}

func TestDevice(t *testing.T) {
	for name, c := range map[string]struct {
		answers []string
		pauses  string
		ok      bool
	}{
		"at once":         {nil, "5s", true},
		"after some time": {[]string{"authorization_pending", "authorization_pending", ""}, "5s 5s 5s", true},
		"more slowly":     {[]string{"slow_down", ""}, "5s 10s", true},
		"declined":        {[]string{"access_denied"}, "5s", false},
		"too late":        {[]string{"expired_token"}, "5s", false},
		"something else":  {[]string{secret}, "5s", false},
		"never":           {[]string{"authorization_pending"}, "", false},
	} {
		w, issued := loginServer(t, c.answers...)
		*issued = living(t)
		clock, shown, pauses := now, "", []string{}
		w.Clock = func() time.Time { return clock }
		w.Login = func(address, code string) { shown = address + " " + code }
		d := device{World: w, client: audience, pause: func(_ context.Context, d time.Duration) error {
			clock = clock.Add(d)
			pauses = append(pauses, d.String())
			return nil
		}}
		got, err := d.Token(t.Context())
		if (err == nil) != c.ok || c.ok && got != *issued {
			t.Errorf("%s: %v", name, err)
		}
		if shown != "https://id.example.test/device ABCD-EFGH" {
			t.Errorf("%s: a person saw %q", name, shown)
		}
		if c.pauses != "" && strings.Join(pauses, " ") != c.pauses {
			t.Errorf("%s: waited %v, want %s", name, pauses, c.pauses)
		}
		if name == "never" && len(pauses) != 60 {
			t.Errorf("asked %d times in five minutes", len(pauses))
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error tells the secret", name)
		}
	}
}

// TestNobodyThere: without a person there is no login, and nothing is asked.
func TestNobodyThere(t *testing.T) {
	w := surroundings(nil)
	w.Issuer = "https://id.example.test"
	if s, err := Parse("device", w); verdict.OutcomeOf(err) != verdict.Malformed {
		t.Errorf("%v, %v", s, err)
	}
	w.Login, w.Issuer = func(string, string) {}, ""
	if s, err := Parse("device", w); verdict.OutcomeOf(err) != verdict.Malformed {
		t.Errorf("without an issuer: %v, %v", s, err)
	}
	for name, answer := range map[string]string{
		"another issuer": `{"issuer":"https://other.example.test","device_authorization_endpoint":"https://x","token_endpoint":"https://y"}`,
		"no such way":    `{"issuer":"%s"}`,
		"no JSON":        secret,
	} {
		s := serving(t, func(http.ResponseWriter, *http.Request) {})
		s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.ReplaceAll(answer, "%s", s.URL)) })
		w.Issuer = s.URL
		source, err := Parse("device", w)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := source.Token(t.Context()); verdict.OutcomeOf(err) != verdict.Refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
