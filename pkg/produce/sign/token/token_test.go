package token

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/testing/bounds"
	"github.com/waybill-release/waybill/pkg/value/identity"
)

var now = time.Unix(1_750_000_000, 0)

// secret is in every token and answer of these tests, and in no error.
const secret = "c2VjcmV0-nobody-may-see-this"

// made is a token that says something.
func made(t testing.TB, said map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	return "e30." + base64.RawURLEncoding.EncodeToString(payload) + "." + secret
}

// living is a token that lives for an hour.
func living(t testing.TB) string {
	return made(t, map[string]any{"iss": "https://id.example.test", "email": "release@example.test", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()})
}

func TestRead(t *testing.T) {
	id := func(subject string, kind identity.SANType) []identity.Identity {
		return []identity.Identity{{Issuer: "https://id.example.test", Subject: subject, Type: kind}}
	}
	for name, c := range map[string]struct {
		said    map[string]any
		subject string
		want    []identity.Identity
	}{
		"a person":           {map[string]any{"sub": "17", "email": "a@example.test"}, "a@example.test", id("a@example.test", identity.Email)},
		"a GitHub workflow":  {map[string]any{"sub": "repo:o/r:ref:x", "job_workflow_ref": "o/r/.github/workflows/w.yml@refs/tags/v1"}, "repo:o/r:ref:x", id("https://github.com/o/r/.github/workflows/w.yml@refs/tags/v1", identity.URI)},
		"a GitLab pipeline":  {map[string]any{"sub": "p", "ci_config_ref_uri": "gitlab.example.test/o/r//.gitlab-ci.yml@refs/heads/main"}, "p", id("https://gitlab.example.test/o/r//.gitlab-ci.yml@refs/heads/main", identity.URI)},
		"a service account":  {map[string]any{"sub": "system:serviceaccount:ns:sa", "kubernetes.io": map[string]any{"namespace": "ns", "serviceaccount": map[string]any{"name": "sa"}}}, "system:serviceaccount:ns:sa", id("https://kubernetes.io/namespaces/ns/serviceaccounts/sa", identity.URI)},
		"a workload":         {map[string]any{"sub": "spiffe://example.test/release"}, "spiffe://example.test/release", id("spiffe://example.test/release", identity.URI)},
		"nobody we know":     {map[string]any{"sub": "17"}, "17", nil},
		"one for others":     {map[string]any{"iss": "https://dex.example.test", "email": "a@example.test", "federated_claims": map[string]any{"connector_id": "https://id.example.test"}}, "a@example.test", id("a@example.test", identity.Email)},
		"half of an account": {map[string]any{"sub": "x", "kubernetes.io": map[string]any{"namespace": "ns"}}, "x", nil},
	} {
		if c.said["iss"] == nil {
			c.said["iss"] = "https://id.example.test"
		}
		got, err := Read(made(t, c.said))
		if err != nil || got.Subject != c.subject || len(got.Identities()) != len(c.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
			continue
		}
		for i, who := range got.Identities() {
			if who != c.want[i] {
				t.Errorf("%s: names %s, want %s", name, who, c.want[i])
			}
		}
	}
}

func TestReadRefuses(t *testing.T) {
	whole := living(t)
	for name, text := range map[string]string{
		"nothing":            "",
		"two parts":          whole[:strings.LastIndex(whole, ".")],
		"four parts":         whole + ".x",
		"no base64":          "e30." + secret + "!." + secret,
		"no JSON":            "e30." + base64.RawURLEncoding.EncodeToString([]byte(secret)) + "." + secret,
		"a date that is one": made(t, map[string]any{"exp": secret}),
		"far too much":       strings.Repeat("x", maxToken) + whole,
	} {
		if _, err := Read(text); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheck(t *testing.T) {
	for exp, lives := range map[any]bool{now.Unix() + 1: true, now.Unix(): false, 0: false, -5: false, 1e300: false, 1750000000.5: false} {
		c, err := Read(made(t, map[string]any{"exp": exp}))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Check(now) == nil; got != lives {
			t.Errorf("exp %v: lives %t, want %t", exp, got, lives)
		}
	}
}

// TestCheckBegins: an issuer's clock may be a minute ahead, and no further.
func TestCheckBegins(t *testing.T) {
	for ahead, good := range map[int64]bool{-3600: true, 0: true, 1: true, 60: true, 61: false, 3600: false} {
		c, err := Read(made(t, map[string]any{"exp": now.Unix() + 7200, "nbf": now.Unix() + ahead}))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(now); (err == nil) != good {
			t.Errorf("a token that begins in %d s: %v", ahead, err)
		}
	}
}

// FuzzRead: what was read expires, names somebody in full, and is small.
func FuzzRead(f *testing.F) {
	f.Add("..")
	f.Add("e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"exp":1750000001,"email":"a@b","job_workflow_ref":"x","sub":"https://a/b"}`)) + ".x")
	f.Fuzz(func(t *testing.T, text string) {
		bounds.Bounded(t, []byte(text), func() {
			c, err := Read(text)
			if err != nil {
				return
			}
			if c.Check(time.Unix(1<<62, 0)) == nil {
				t.Errorf("%q never expires", text)
			}
			for _, who := range c.Identities() {
				if who.Subject == "" || who.Type == "" {
					t.Errorf("%q names %+v", text, who)
				}
			}
		})
	})
}
