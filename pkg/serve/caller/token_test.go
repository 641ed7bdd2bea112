package caller_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// issuer signs tokens.
type issuer struct {
	key  *ecdsa.PrivateKey
	keys caller.Keys
	jwks []byte
	now  time.Time
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	is := &issuer{now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}
	var err error
	if is.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	is.jwks, err = json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: is.key.Public(), KeyID: "one", Algorithm: "ES256", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	if is.keys, err = caller.ParseKeys(is.jwks); err != nil {
		t.Fatal(err)
	}
	return is
}

// token signs what is usual, with some claims changed; one that is nil is left
// out.
func (is *issuer) token(t *testing.T, headers map[jose.HeaderKey]any, said map[string]any) string {
	t.Helper()
	claims := map[string]any{
		"iss": "https://token.example.test", "sub": "repo:example/lantern:ref:refs/heads/nightly", "aud": "https://gate.example.test",
		"iat": is.now.Add(-time.Minute).Unix(), "exp": is.now.Add(10 * time.Minute).Unix(), "jti": "a1",
	}
	maps.Copy(claims, said)
	for name, value := range claims {
		if value == nil {
			delete(claims, name)
		}
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return is.sign(t, headers, payload)
}

func (is *issuer) sign(t *testing.T, headers map[jose.HeaderKey]any, payload []byte) string {
	t.Helper()
	o := (&jose.SignerOptions{}).WithHeader("kid", "one")
	for name, value := range headers {
		o = o.WithHeader(name, value)
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: is.key}, o)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// unsigned is a token with a header of its own and a signature that is none.
func unsigned(token, header string) string {
	parts := strings.Split(token, ".")
	parts[0] = base64.RawURLEncoding.EncodeToString([]byte(header))
	return strings.Join(parts, ".")
}

// TestTokens changes one thing of a token that is good.
func TestTokens(t *testing.T) {
	b, is, other := open(t), newIssuer(t), newIssuer(t)
	sec := func(d time.Duration) int64 { return is.now.Add(d).Unix() }
	good := is.token(t, nil, nil)
	var jwk jose.JSONWebKey
	jwk.Key, jwk.KeyID = other.key.Public(), "one"
	for _, c := range []struct {
		name, token string
		want        verdict.Code
	}{
		{"nothing", good, ""},
		{"the audience in a list of one", is.token(t, nil, map[string]any{"aud": []string{"https://gate.example.test"}}), ""},
		{"within the skew, of its beginning", is.token(t, nil, map[string]any{"nbf": sec(59 * time.Second)}), ""},
		{"of the future", is.token(t, nil, map[string]any{"nbf": sec(62 * time.Second)}), verdict.TokenTime},
		{"within the skew", is.token(t, nil, map[string]any{"iat": sec(50 * time.Second), "exp": sec(time.Hour)}), ""},
		{"empty", "", verdict.TokenParse},
		{"two parts", good[:strings.LastIndexByte(good, '.')], verdict.TokenParse},
		{"encrypted, and compressed", "eyJhbGciOiJkaXIiLCJlbmMiOiJBMTI4R0NNIiwiemlwIjoiREVGIn0..AAAA.AAAA.AAAA", verdict.TokenParse},
		{"many dots", strings.Repeat(".", 1_000_000), verdict.TokenParse},
		{"too long", good + strings.Repeat("A", 16<<10), verdict.TokenParse},
		{"no base64", "!" + good, verdict.TokenParse},
		{"no algorithm", unsigned(good, `{"alg":"none","kid":"one"}`), verdict.TokenAlg},
		{"a secret for an algorithm", unsigned(good, `{"alg":"HS256","kid":"one"}`), verdict.TokenAlg},
		{"another algorithm than the key's", unsigned(good, `{"alg":"ES384","kid":"one"}`), verdict.TokenAlg},
		{"a key of its own", other.token(t, map[jose.HeaderKey]any{"jwk": jwk}, nil), verdict.TokenAlg},
		{"an address of keys", is.token(t, map[jose.HeaderKey]any{"jku": "https://evil.example.test/keys"}, nil), verdict.TokenAlg},
		{"a chain of its own", is.token(t, map[jose.HeaderKey]any{"x5u": "https://evil.example.test/chain"}, nil), verdict.TokenAlg},
		{"somebody else's signature", other.token(t, nil, nil), verdict.TokenKey},
		{"a key that nobody has", is.token(t, map[jose.HeaderKey]any{"kid": "two"}, nil), verdict.TokenKey},
		{"no audience", is.token(t, nil, map[string]any{"aud": nil}), "TOKEN_AUD"},
		{"another audience", is.token(t, nil, map[string]any{"aud": "sigstore"}), "TOKEN_AUD"},
		{"a longer audience", is.token(t, nil, map[string]any{"aud": "https://gate.example.test/"}), "TOKEN_AUD"},
		{"two audiences", is.token(t, nil, map[string]any{"aud": []string{"https://gate.example.test", "sigstore"}}), "TOKEN_AUD"},
		{"another subject", is.token(t, nil, map[string]any{"sub": "repo:example/lantern:ref:refs/heads/evil"}), verdict.TokenSub},
		{"no subject", is.token(t, nil, map[string]any{"sub": nil}), verdict.TokenSub},
		{"another issuer", is.token(t, nil, map[string]any{"iss": "https://accounts.example.test"}), verdict.TokenSub},
		{"the claims of the caller, as numbers", is.token(t, nil, map[string]any{"sub": "repo:example/lantern:ref:refs/heads/main", "repository_id": 1234, "workflow_ref": "example/lantern/release.yml@refs/heads/main"}), ""},
		{"a number that is rounded to the caller's", is.token(t, nil, map[string]any{"sub": "repo:example/lantern:ref:refs/heads/main", "repository_id": 1234.4, "workflow_ref": "example/lantern/release.yml@refs/heads/main"}), verdict.TokenSub},
		{"the claims of another caller", is.token(t, nil, map[string]any{"sub": "repo:example/lantern:ref:refs/heads/main", "repository_id": "9999"}), verdict.TokenSub},
		{"an address that nobody verified", is.token(t, nil, map[string]any{"iss": "https://accounts.example.test", "sub": "42", "email": "officer@example.test"}), verdict.TokenSub},
		{"expired", is.token(t, nil, map[string]any{"exp": sec(-2 * time.Minute)}), verdict.TokenTime},
		{"no end", is.token(t, nil, map[string]any{"exp": nil}), verdict.TokenTime},
		{"no beginning", is.token(t, nil, map[string]any{"iat": nil}), verdict.TokenTime},
		{"from the future", is.token(t, nil, map[string]any{"iat": sec(2 * time.Minute)}), verdict.TokenTime},
		{"not yet", is.token(t, nil, map[string]any{"nbf": sec(2 * time.Minute)}), verdict.TokenTime},
		{"for a year", is.token(t, nil, map[string]any{"exp": sec(365 * 24 * time.Hour)}), verdict.TokenTime},
		{"a claim twice", is.sign(t, nil, []byte(`{"iss":"https://token.example.test","sub":"a","sub":"b"}`)), verdict.TokenParse},
		{"no object", is.sign(t, nil, []byte(`"text"`)), verdict.TokenParse},
	} {
		p, err := b.Token(c.token, is.keys, is.now)
		if codeOf(err) != c.want || (p.Name() != "") != (c.want == "") {
			t.Errorf("%s: %q, %v; want %q", c.name, p.Name(), err, c.want)
		}
	}
	if at, err := b.Issuer(good); err != nil || at != "https://token.example.test" {
		t.Errorf("the issuer is %q, %v", at, err)
	}
	if _, err := b.Issuer(is.token(t, nil, map[string]any{"iss": "https://evil.example.test"})); codeOf(err) != verdict.TokenSub {
		t.Errorf("an issuer that is none of the book: %v", err)
	}
}

// TestClaimIsNoDocument: a claim that is an object or a list never matches, also
// where the book has its text; a number and a text match.
func TestClaimIsNoDocument(t *testing.T) {
	is := newIssuer(t)
	for raw, good := range map[string]bool{`{"a":1}`: false, `[1]`: false, `null`: false, `1`: true, `true`: true, `"{}"`: true} {
		var want string
		if json.Unmarshal([]byte(raw), &want) != nil || raw == "null" {
			want = raw
		}
		b, err := caller.Parse([]byte(strings.Replace(book, `claims: {repository_id: "1234",`, "claims: {repository_id: '"+want+"',", 1)))
		if err != nil {
			t.Fatal(err)
		}
		token := is.token(t, nil, map[string]any{"sub": "repo:example/lantern:ref:refs/heads/main", "repository_id": json.RawMessage(raw), "workflow_ref": "example/lantern/release.yml@refs/heads/main"})
		if _, err := b.Token(token, is.keys, is.now); (err == nil) != good || !good && codeOf(err) != verdict.TokenSub {
			t.Errorf("%s: %v, want it to match: %t", raw, err, good)
		}
	}
}

// TestKeys: a set of keys without one, or too large, is none.
func TestKeys(t *testing.T) {
	is := newIssuer(t)
	for name, raw := range map[string]string{
		"empty": "", "no keys": `{"keys":[]}`, "no JSON": "keys", "too large": string(is.jwks) + strings.Repeat(" ", 1<<20),
	} {
		if _, err := caller.ParseKeys([]byte(raw)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	private, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: is.key, KeyID: "one"}}})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := caller.ParseKeys(private)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(t).Token(is.token(t, nil, nil), keys, is.now); codeOf(err) != verdict.TokenKey {
		t.Errorf("a private key among the public ones: %v", err)
	}
	for algorithm, want := range map[string]verdict.Code{"ES256": "", "": "", "ES384": verdict.TokenAlg} {
		raw, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: is.key.Public(), KeyID: "one", Algorithm: algorithm}}})
		if err != nil {
			t.Fatal(err)
		}
		keys, err := caller.ParseKeys(raw)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := open(t).Token(is.token(t, nil, nil), keys, is.now); codeOf(err) != want {
			t.Errorf("a key for the algorithm %q: %v, want %q", algorithm, err, want)
		}
	}
}
