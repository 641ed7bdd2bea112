package signing

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// replaying answers requests to a service with what it answered before.
func replaying(t *testing.T, w *world, service string) func(call) (*http.Response, error) {
	t.Helper()
	var once sync.Once
	var status int
	var body string
	first := w.meddler(func(c call) (*http.Response, error) {
		r, err := c.pass()
		if err == nil && c.service == service {
			once.Do(func() { status, body = r.StatusCode, text(t, r) })
		}
		return r, err
	})
	if _, _, err := w.signer(t, first).Blob(t.Context(), file(99)); err != nil {
		t.Fatal(err)
	}
	return func(c call) (*http.Response, error) {
		if c.service == service {
			return says(status, body)
		}
		return c.pass()
	}
}

// answering answers requests to a service with a text.
func answering(service string, status int, body string) func(call) (*http.Response, error) {
	return func(c call) (*http.Response, error) {
		if c.service == service {
			return says(status, body)
		}
		return c.pass()
	}
}

// lacking is the lab's trust root without one kind of authority.
func lacking(t *testing.T, w *world, what string) func(*sign.Config) {
	t.Helper()
	var root map[string]json.RawMessage
	if err := json.Unmarshal(w.TrustedRoot, &root); err != nil {
		t.Fatal(err)
	}
	root[what] = json.RawMessage("[]")
	raw, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	v := verifierOf(t, raw)
	return func(c *sign.Config) { c.Verifier = v }
}

// TestServicesLie: an answer that does not hold is not used, and the services
// after it are asked for nothing.
func TestServicesLie(t *testing.T) {
	w := newWorld(t)
	other := lab.New(t)
	elsewhere := func(c call) (*http.Response, error) {
		if c.service == "fulcio" {
			c.request.URL.Host = strings.TrimPrefix(other.Fulcio, "http://")
			c.request.Header.Set("Authorization", "Bearer "+other.Token(lab.RoleRelease))
		}
		return c.pass()
	}
	workflow, err := w.Mint(lab.RoleBuilder, map[string]any{"job_workflow_ref": "o/r/.github/workflows/release.yml@refs/heads/main"})
	if err != nil {
		t.Fatal(err)
	}
	as := func(token string) func(*sign.Config) {
		return func(c *sign.Config) { c.Token = func(context.Context) (string, error) { return token, nil } }
	}
	for name, c := range map[string]struct {
		meddle func(call) (*http.Response, error)
		edit   func(*sign.Config)
		want   verdict.Code
		last   string // the last service that is asked
	}{
		"nobody":                        {nil, nil, "", "rekor"},
		"a certificate of another key":  {replaying(t, w, "fulcio"), nil, "CERT_KEY", "fulcio"},
		"a certificate of elsewhere":    {elsewhere, nil, verdict.ChainUntrusted, "fulcio"},
		"a certificate that nobody saw": {nil, lacking(t, w, "ctlogs"), verdict.SCT, "fulcio"},
		"a certificate of another name": {nil, as(workflow), verdict.SignedAsElse, "fulcio"},
		"another's token":               {nil, as(w.Token(lab.RoleBuilder)), verdict.SignedAsElse, ""},
		"no certificate":                {answering("fulcio", 200, `{}`), nil, verdict.ServiceRefused, "fulcio"},
		"a certificate that is none":    {answering("fulcio", 200, `{"signedCertificateEmbeddedSct":{"chain":{"certificates":["x"]}}}`), nil, verdict.CertParse, "fulcio"},
		"a token that is not believed":  {answering("fulcio", 401, `no`), nil, verdict.TokenRefused, "fulcio"},
		"a timestamp of another":        {replaying(t, w, "tsa"), nil, verdict.TSAImprint, "tsa"},
		"a timestamp by nobody":         {nil, lacking(t, w, "timestampAuthorities"), verdict.TSAUntrusted, "tsa"},
		"a timestamp that is none":      {answering("tsa", 200, "x"), nil, verdict.TimeInvalid, "tsa"},
		"a timestamp authority's no":    {answering("tsa", 403, "no"), nil, verdict.ServiceRefused, "tsa"},
		"a log that says yes to others": {replaying(t, w, "rekor"), nil, verdict.LogEntryUnbound, "rekor"},
		"a log that says yes":           {answering("rekor", 201, "{}"), nil, verdict.BundleLacks, "rekor"},
		"a log that says anything":      {answering("rekor", 201, "yes"), nil, verdict.ServiceRefused, "rekor"},
		"a log that is frozen":          {answering("rekor", 405, "frozen"), nil, verdict.ServiceRefused, "rekor"},
		"a log that the root lacks":     {nil, lacking(t, w, "tlogs"), verdict.LogUnknown, "rekor"},
		"far too much":                  {answering("rekor", 201, strings.Repeat(" ", 2<<20)), nil, verdict.ServiceRefused, "rekor"},
	} {
		t.Run(name, func(t *testing.T) {
			m := w.meddler(c.meddle)
			edits := []func(*sign.Config){patient}
			if c.edit != nil {
				edits = append(edits, c.edit)
			}
			bundle, e, err := w.signer(t, m, edits...).Blob(t.Context(), file(1))
			refused(t, err, c.want)
			if (bundle == nil) != (c.want != "") || e.IsZero() != (c.want != "") {
				t.Error("a bundle with an error, or neither")
			}
			last := ""
			for _, service := range []string{"fulcio", "tsa", "rekor"} {
				if m.to(service) > 0 {
					last = service
				}
			}
			if last != c.last {
				t.Errorf("the last that was asked is %q, want %q", last, c.last)
			}
		})
	}
}

// TestTokensAreNeverTold: services that quote what they were sent, and say no
// or hang up, in every way that is retried or not.
func TestTokensAreNeverTold(t *testing.T) {
	w := newWorld(t)
	parts := strings.Split(w.token, ".")
	path := journalIn(t)
	keep := keeping(t, path)
	for _, status := range []int{200, 201, 400, 401, 403, 409, 429, 500, 503} {
		m := w.meddler(func(c call) (*http.Response, error) {
			if c.service == "fulcio" {
				sent := c.request.Header.Get("Authorization")
				return says(status, `{"message":"`+sent+`","code":`+strings.TrimPrefix(sent, "Bearer ")+`}`)
			}
			return c.pass()
		})
		_, _, err := w.signer(t, m, keep, patient).Blob(t.Context(), file(1))
		if err == nil {
			t.Fatalf("%d: signed", status)
		}
		for _, told := range []string{err.Error(), verdict.FindingOf("", err).Message, w.told(), contents(t, path)} {
			for _, part := range append(parts[1:], w.token) {
				if strings.Contains(told, part) {
					t.Errorf("%d: the token was told: %s", status, told)
				}
			}
		}
	}
	if !strings.Contains(w.told(), "[token]") {
		t.Error("nothing was reported of what the services quote")
	}
}

// TestTokenIsAskedAnew: a certificate lives for minutes, and a token for few
// more; each certificate is asked for with a token of its own time.
func TestTokenIsAskedAnew(t *testing.T) {
	w := newWorld(t)
	asked := 0
	s := w.signer(t, w.honest(), func(c *sign.Config) {
		c.Token = func(context.Context) (string, error) {
			asked++
			return w.Mint(lab.RoleRelease, map[string]any{"exp": w.now().Add(5 * time.Minute).Unix()})
		}
	})
	for i := range 5 {
		if _, _, err := s.Blob(t.Context(), file(i)); err != nil {
			t.Fatal(err)
		}
		_ = w.pause(t.Context(), 6*time.Minute)
	}
	if asked != 3 {
		t.Errorf("%d tokens for 24 minutes", asked)
	}
}
