package signing

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// clouds gives out the lab's tokens as GitHub Actions and Google do: the
// machine's own account is the builder's, and it may speak for others.
func (w *world) clouds(t *testing.T) token.World {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(a http.ResponseWriter, r *http.Request) {
		a.Header().Set("Metadata-Flavor", "Google")
		account, speaks := strings.CutPrefix(r.URL.Path, "/v1/projects/-/serviceAccounts/")
		switch {
		case r.URL.Path == "/github":
			_, _ = fmt.Fprintf(a, `{"value":%q}`, w.Token(lab.RoleRelease))
		case strings.HasSuffix(r.URL.Path, "/default/identity"):
			_, _ = fmt.Fprint(a, w.Token(lab.RoleBuilder))
		case strings.HasSuffix(r.URL.Path, "/default/token"):
			_, _ = fmt.Fprint(a, `{"access_token":"access"}`)
		case speaks && r.Header.Get("Authorization") == "Bearer access":
			_, _ = fmt.Fprintf(a, `{"token":%q}`, w.Token(strings.TrimSuffix(account, ":generateIdToken")))
		default:
			http.Error(a, "no", http.StatusForbidden)
		}
	}))
	t.Cleanup(s.Close)
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "projected")
	if err := os.WriteFile(file, []byte(w.Token(lab.RoleRelease)), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"ACTIONS_ID_TOKEN_REQUEST_URL": s.URL + "/github?v=2", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "bearer",
		"GCE_METADATA_HOST": at.Host, "GOOGLE_CLOUD_IAMCREDENTIALS_ENDPOINT": s.URL,
		"SIGSTORE_ID_TOKEN": w.Token(lab.RoleRelease), "WAYBILL_IDENTITY_TOKEN_FILE": file,
	}
	return token.World{Transport: oneWay, Clock: w.now, Env: func(name string) string { return env[name] }}
}

// TestSourcesSign: every source gets a certificate and signs; the wrong
// account of the right cloud is stopped before anybody is asked for one.
func TestSourcesSign(t *testing.T) {
	w := newWorld(t)
	around := w.clouds(t)
	for word, want := range map[string]verdict.Code{
		"github": "", "gitlab": "", "kubernetes": "", "ambient": "",
		"google:release@lab.invalid": "",
		"google:policy@lab.invalid":  verdict.SignedAsElse,
		"google":                     verdict.SignedAsElse,
	} {
		source, err := token.Parse(word, around)
		if err != nil {
			t.Fatal(err)
		}
		m := w.honest()
		_, _, err = w.signer(t, m, func(c *sign.Config) { c.Token = source.Token }).Blob(t.Context(), file(1))
		refused(t, err, want)
		if asked := m.to("fulcio"); (asked == 0) != (want != "") {
			t.Errorf("%s: the certificate authority was asked %d times", word, asked)
		}
	}
}

// TestProjectedTokenRotates: a certificate that is due is asked for with what
// is in the file then, and a file that nobody rotates ends it with a sentence.
func TestProjectedTokenRotates(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "token")
	rotate := func() {
		text, err := w.Mint(lab.RoleRelease, map[string]any{"exp": w.now().Add(15 * time.Minute).Unix()})
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	rotate()
	m := w.honest()
	s := w.signer(t, m, func(c *sign.Config) { c.Token = token.File(path).Token })
	for i, step := range []struct {
		rotated bool
		want    verdict.Code
	}{{false, ""}, {false, ""}, {false, verdict.TokenRefused}, {true, ""}} {
		if step.rotated {
			rotate()
		}
		_, _, err := s.Blob(t.Context(), file(i))
		refused(t, err, step.want)
		_ = w.pause(t.Context(), 10*time.Minute)
	}
	if got := m.to("fulcio"); got != 3 {
		t.Errorf("%d certificates", got)
	}
}

// TestPolicyWindow: an identity whose time has passed signs nothing that is
// handed out; the twin is every other test.
func TestPolicyWindow(t *testing.T) {
	w := newWorld(t)
	past := strings.Replace(policyText(w.Issuer), "type: email}\n  - ", "type: email, until: \"2020-01-01\"}\n  - ", 1)
	p, err := policy.Parse([]byte(past), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = w.signer(t, w.honest(), func(c *sign.Config) { c.Policy = p }).Blob(t.Context(), file(1))
	refused(t, err, verdict.IdentityWindow)
}

// TestDue: what would be done is known without anybody but the source of
// tokens, and is what is then done.
func TestDue(t *testing.T) {
	w := newWorld(t)
	path := journalIn(t)
	cut := w.meddler(func(c call) (*http.Response, error) {
		if c.number == 5 { // the second signature's way to the log
			return cutOff(c)
		}
		return c.pass()
	})
	if _, err := w.signAll(t, cut, path, orders(t, 2)); err == nil {
		t.Fatal("nothing was cut off")
	}
	m := w.honest()
	s := w.signer(t, m, keeping(t, path))
	got, err := s.Due(orders(t, 5))
	as, asked := s.As(t.Context())
	if err != nil || asked != nil || got.Entries != 4 || got.Unfinished != 1 || got.Found != 1 || !strings.HasPrefix(as.Subject, "release@lab.invalid") || m.all != 0 {
		t.Errorf("%+v, %v, as %s, %v, after %d requests", got, err, as, asked, m.all)
	}
	_, keep := gather(t)
	if err := s.Each(t.Context(), orders(t, 5), keep); err != nil || s.Tally() != (sign.Tally{Made: 3, Finished: 1, Found: 1, Entries: 3}) {
		t.Errorf("%+v, %v", s.Tally(), err)
	}
	w.token = w.Token(lab.RolePolicy)
	_, err = w.signer(t, m).As(t.Context())
	refused(t, err, verdict.SignedAsElse)
}
