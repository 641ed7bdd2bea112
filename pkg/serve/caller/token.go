package caller

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Limits of a token and of the keys of an issuer.
const (
	maxToken = 16 << 10
	maxKeys  = 64
	maxJWKS  = 1 << 20
	// skew is how far two clocks may be apart.
	skew = time.Minute
	// maxLife is how long a token may live: a password is none.
	maxLife = 24 * time.Hour
)

// algorithms are those in which tokens are signed: with a key that only the
// issuer has. Which of them a key is for, the key says.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.ES256, jose.ES384, jose.EdDSA}

// Keys are the public keys of an issuer.
type Keys struct{ set jose.JSONWebKeySet }

// ParseKeys reads a JWKS.
func ParseKeys(raw []byte) (Keys, error) {
	if len(raw) > maxJWKS {
		return Keys{}, verdict.Refuse(verdict.Limit, "keys", "more than %d bytes", maxJWKS)
	}
	var k Keys
	if err := json.Unmarshal(raw, &k.set); err != nil {
		return Keys{}, verdict.Wrap(verdict.TokenKey, "keys", err)
	}
	if len(k.set.Keys) == 0 || len(k.set.Keys) > maxKeys {
		return Keys{}, verdict.Refuse(verdict.TokenKey, "keys", "%d keys: want from 1 to %d", len(k.set.Keys), maxKeys)
	}
	return k, nil
}

// find is the key of an ID, if it is one to sign tokens with.
func (k Keys) find(id, algorithm string) (any, error) {
	var found []jose.JSONWebKey
	for _, key := range k.set.Keys {
		if key.KeyID == id && id != "" {
			found = append(found, key)
		}
	}
	switch {
	case len(found) != 1:
		return nil, verdict.Refuse(verdict.TokenKey, "token", "the issuer has %d keys with the ID %.100q", len(found), id)
	case !found[0].Valid() || !found[0].IsPublic():
		return nil, verdict.Refuse(verdict.TokenKey, "token", "the key %.100q is none to verify with", id)
	case found[0].Use != "" && found[0].Use != "sig", found[0].Algorithm != "" && found[0].Algorithm != algorithm:
		return nil, verdict.Refuse(verdict.TokenAlg, "token", "the key %.100q is for %s, not to sign with %s", id, found[0].Use+" "+found[0].Algorithm, algorithm)
	}
	return found[0].Key, nil
}

// Issuer reads which issuer a token says that it is of, to know whose keys are
// to be asked for. Nothing of it is verified; only issuers of the book are
// answered.
func (b Book) Issuer(token string) (string, error) {
	parsed, err := parseToken(token)
	if err != nil {
		return "", err
	}
	var said claims
	if err := said.read(parsed.UnsafePayloadWithoutVerification()); err != nil {
		return "", err
	}
	for _, c := range b.callers {
		if c.Token != nil && c.Token.Issuer == said.Issuer {
			return said.Issuer, nil
		}
	}
	return "", verdict.Refuse(verdict.TokenSub, "token", "nobody here is known by a token of %.200q", said.Issuer)
}

// Token recognises the caller who shows a token, by keys of the issuer that
// [Book.Issuer] named.
func (b Book) Token(token string, keys Keys, now time.Time) (Principal, error) {
	parsed, err := parseToken(token)
	if err != nil {
		return Principal{}, err
	}
	header := parsed.Signatures[0].Header
	key, err := keys.find(header.KeyID, header.Algorithm)
	if err != nil {
		return Principal{}, err
	}
	payload, err := parsed.Verify(key)
	if err != nil {
		return Principal{}, verdict.Refuse(verdict.TokenKey, "token", "its signature is not by the issuer's key %.100q", header.KeyID)
	}
	var said claims
	if err := said.read(payload); err != nil {
		return Principal{}, err
	}
	if err := said.lives(now); err != nil {
		return Principal{}, err
	}
	if len(said.Audience) != 1 || said.Audience[0] != b.audience || b.audience == "" {
		return Principal{}, &verdict.Error{Finding: verdict.Find(verdict.TokenAud, "token", "it is for somebody else").
			Differ(b.audience, fmt.Sprintf("%.200q", []string(said.Audience)))}
	}
	return b.match(said)
}

// match finds the one caller that the claims are of.
func (b Book) match(said claims) (Principal, error) {
	nearest := ""
	for _, c := range b.callers {
		if c.Token == nil || c.Token.Issuer != said.Issuer || c.Token.Subject != said.Subject {
			continue
		}
		if nearest = c.lacks(said); nearest == "" {
			return Principal{name: c.Name, shown: Shown{said.Issuer, said.ID, said.expires().Add(skew)}}, nil
		}
	}
	if nearest != "" {
		return Principal{}, verdict.Refuse(verdict.TokenSub, "token", "%s", nearest)
	}
	return Principal{}, verdict.Refuse(verdict.TokenSub, "token", "nobody here is known as %.200q of %.200q", said.Subject, said.Issuer)
}

// lacks says which claim of a caller a token does not have.
func (c Caller) lacks(said claims) string {
	for name, want := range c.Token.Claims {
		if got := said.all[name]; got != want {
			return fmt.Sprintf("its claim %s is %.200q, want %q", name, got, want)
		}
	}
	if _, asked := c.Token.Claims["email"]; asked && said.all["email_verified"] != "true" {
		return "its issuer does not say that it verified the e-mail address"
	}
	return ""
}

// Certificate recognises the caller who showed a certificate that was verified
// by the authority of this service's clients, if it is valid now: a connection
// may be older than what was shown on it.
func (b Book) Certificate(leaf *x509.Certificate, now time.Time) (Principal, error) {
	switch {
	case leaf == nil || len(leaf.URIs) != 1:
		return Principal{}, verdict.Refuse(verdict.TokenSub, "certificate", "it does not name one URI")
	case now.Before(leaf.NotBefore) || now.After(leaf.NotAfter):
		return Principal{}, &verdict.Error{Finding: verdict.Find(verdict.TokenTime, "certificate", "it is not valid at this time").
			Differ(now.UTC().Format(time.RFC3339), leaf.NotBefore.UTC().Format(time.RFC3339)+" to "+leaf.NotAfter.UTC().Format(time.RFC3339))}
	}
	for _, c := range b.callers {
		if c.Certificate != nil && c.Certificate.URI == leaf.URIs[0].String() {
			return Principal{name: c.Name}, nil
		}
	}
	return Principal{}, verdict.Refuse(verdict.TokenSub, "certificate", "nobody here is known as %.200q", leaf.URIs[0].String())
}

// parseToken reads a token, and refuses every form in which it could choose
// how it is verified.
func parseToken(token string) (*jose.JSONWebSignature, error) {
	if len(token) > maxToken || strings.Count(token, ".") != 2 {
		return nil, verdict.Refuse(verdict.TokenParse, "token", "want three parts, %d bytes at most", maxToken)
	}
	parsed, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		code := verdict.TokenParse
		if strings.Contains(err.Error(), "algorithm") { // the library has no kind for it
			code = verdict.TokenAlg
		}
		return nil, verdict.Refuse(code, "token", "it is not signed as tokens are")
	}
	header := parsed.Signatures[0].Protected
	if header.JSONWebKey != nil || len(header.ExtraHeaders) > 0 && slices.ContainsFunc(forbiddenHeaders(), func(h jose.HeaderKey) bool {
		_, has := header.ExtraHeaders[h]
		return has
	}) {
		return nil, verdict.Refuse(verdict.TokenAlg, "token", "it says itself which key it is verified with")
	}
	return parsed, nil
}

// forbiddenHeaders name or bring a key, or ask for something that we do not do.
func forbiddenHeaders() []jose.HeaderKey {
	return []jose.HeaderKey{"jku", "x5u", "x5c", "x5t", "x5t#S256", "crit", "b64", "zip", "enc"}
}

// claims are what a token says.
type claims struct {
	Issuer    string   `json:"iss"`
	Subject   string   `json:"sub"`
	Audience  audience `json:"aud"`
	ID        string   `json:"jti"`
	Expires   *float64 `json:"exp"`
	NotBefore *float64 `json:"nbf"`
	Issued    *float64 `json:"iat"`

	all map[string]string
}

// audience is one, or a list.
type audience []string

// UnmarshalJSON implements [json.Unmarshaler].
func (a *audience) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(a))
}

// read reads the payload of a token: no key twice, no other case.
func (c *claims) read(payload []byte) error {
	var all map[string]json.RawMessage
	err := strictjson.UnmarshalOpen(payload, c)
	if err == nil {
		err = strictjson.UnmarshalOpen(payload, &all)
	}
	if err != nil {
		return verdict.Refuse(verdict.TokenParse, "token", "what it says is not to be read: %v", err)
	}
	c.all = map[string]string{}
	for name, raw := range all {
		var text string
		switch kind := raw[0]; {
		case kind == '"' && json.Unmarshal(raw, &text) == nil:
			c.all[name] = text
		case kind != '"' && kind != '{' && kind != '[' && kind != 'n': // true, false, or a number as it is written
			c.all[name] = string(raw)
		}
	}
	return nil
}

// lives refuses a token that is not of now.
func (c *claims) lives(now time.Time) error {
	switch {
	case c.Expires == nil || c.Issued == nil:
		return verdict.Refuse(verdict.TokenTime, "token", "it does not say when it was issued, or when it expires")
	case !now.Before(c.expires().Add(skew)):
		return verdict.Refuse(verdict.TokenTime, "token", "it expired at %s", c.expires().UTC().Format(time.RFC3339))
	case now.Add(skew).Before(at(c.Issued)), c.NotBefore != nil && now.Add(skew).Before(at(c.NotBefore)):
		return verdict.Refuse(verdict.TokenTime, "token", "it is from the future")
	case c.expires().Sub(at(c.Issued)) > maxLife:
		return verdict.Refuse(verdict.TokenTime, "token", "it lives longer than %s", maxLife)
	}
	return nil
}

// expires is when the token expires; it says when.
func (c *claims) expires() time.Time { return at(c.Expires) }

func at(seconds *float64) time.Time { return time.Unix(int64(*seconds), 0) }
