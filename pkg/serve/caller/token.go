package caller

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Limits of a token and of the keys of an issuer.
const (
	maxToken = 16 << 10
	maxKeys  = 64
	maxJWKS  = 1 << 20
	// skew is the tolerated difference between two clocks.
	skew = time.Minute
	// maxLife is the longest accepted lifetime of a token: a token must not
	// become a password.
	maxLife = 24 * time.Hour
)

// algorithms are the accepted signature algorithms: asymmetric ones only. Each
// key says which of them it is for.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.ES256, jose.ES384, jose.EdDSA}

// Keys are the public keys of an issuer.
type Keys struct{ set jose.JSONWebKeySet }

// ParseKeys parses a JWKS.
func ParseKeys(raw []byte) (k Keys, err error) {
	if len(raw) > maxJWKS {
		return Keys{}, verdict.Refuse(verdict.Limit, "keys", "more than %d bytes", maxJWKS)
	}
	if err := json.Unmarshal(raw, &k.set); err != nil {
		return Keys{}, verdict.Wrap(verdict.TokenKey, "keys", err)
	}
	if len(k.set.Keys) == 0 || len(k.set.Keys) > maxKeys {
		return Keys{}, verdict.Refuse(verdict.TokenKey, "keys", "%d keys: want from 1 to %d", len(k.set.Keys), maxKeys)
	}
	return k, nil
}

func (k Keys) find(id, algorithm string) (any, error) {
	found := slice.Filter(k.set.Keys, func(key jose.JSONWebKey) bool { return key.KeyID == id && id != "" })
	switch {
	case len(found) != 1:
		return nil, verdict.Refuse(verdict.TokenKey, "token", "want one key of the issuer with the ID %.100q, got %d", id, len(found))
	case !found[0].Valid() || !found[0].IsPublic():
		return nil, verdict.Refuse(verdict.TokenKey, "token", "the key %.100q is not a valid public key", id)
	case found[0].Use != "" && found[0].Use != "sig", found[0].Algorithm != "" && found[0].Algorithm != algorithm:
		return nil, verdict.Refuse(verdict.TokenAlg, "token", "the key %.100q is for %s, not for %s signatures", id, found[0].Use+" "+found[0].Algorithm, algorithm)
	}
	return found[0].Key, nil
}

// Issuer returns the issuer that an unverified token names, to find its keys.
// Only issuers of the book are returned.
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
	return "", verdict.Refuse(verdict.TokenSub, "token", "no caller of this gate uses the issuer %.200q", said.Issuer)
}

// Token authenticates the owner of a token, by keys of the issuer that
// [Book.Issuer] returned.
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
		return Principal{}, verdict.Refuse(verdict.TokenKey, "token", "the token's signature does not verify with the issuer's key %.100q", header.KeyID)
	}
	var said claims
	if err := said.read(payload); err != nil {
		return Principal{}, err
	}
	if err := said.checkTimes(now); err != nil {
		return Principal{}, err
	}
	if len(said.Audience) != 1 || said.Audience[0] != b.audience || b.audience == "" {
		return Principal{}, &verdict.Error{Finding: verdict.Find("TOKEN_AUD", "token", "the token is for another audience").
			Differ(b.audience, fmt.Sprintf("%.200q", []string(said.Audience)))}
	}
	return b.match(said)
}

// match finds the caller that the claims identify.
func (b Book) match(said claims) (Principal, error) {
	nearest := ""
	for _, c := range b.callers {
		if c.Token == nil || c.Token.Issuer != said.Issuer || c.Token.Subject != said.Subject {
			continue
		}
		if nearest = c.missingClaim(said); nearest == "" {
			return Principal{name: c.Name, shown: Shown{said.Issuer, said.ID, said.expires().Add(skew)}}, nil
		}
	}
	if nearest != "" {
		return Principal{}, verdict.Refuse(verdict.TokenSub, "token", "%s", nearest)
	}
	return Principal{}, verdict.Refuse(verdict.TokenSub, "token", "no caller of this gate has the subject %.200q of the issuer %.200q", said.Subject, said.Issuer)
}

// missingClaim describes a claim of a caller that a token lacks.
func (c Caller) missingClaim(said claims) string {
	for name, want := range c.Token.Claims {
		if got := said.all[name]; got != want {
			return fmt.Sprintf("the token's claim %s is %.200q, want %q", name, got, want)
		}
	}
	if _, asked := c.Token.Claims["email"]; asked && said.all["email_verified"] != "true" {
		return "the token lacks the claim email_verified: true"
	}
	return ""
}

// Certificate authenticates the owner of a client certificate that was verified
// by an accepted authority. Its validity is checked again: the connection may
// be older than the expiry.
func (b Book) Certificate(leaf *x509.Certificate, now time.Time) (Principal, error) {
	switch {
	case leaf == nil || len(leaf.URIs) != 1:
		return Principal{}, verdict.Refuse(verdict.TokenSub, "certificate", "the certificate must contain exactly one URI")
	case now.Before(leaf.NotBefore) || now.After(leaf.NotAfter):
		return Principal{}, &verdict.Error{Finding: verdict.Find(verdict.TokenTime, "certificate", "the certificate is expired or not yet valid").
			Differ(now.UTC().Format(time.RFC3339), leaf.NotBefore.UTC().Format(time.RFC3339)+" to "+leaf.NotAfter.UTC().Format(time.RFC3339))}
	}
	for _, c := range b.callers {
		if c.Certificate != nil && c.Certificate.URI == leaf.URIs[0].String() {
			return Principal{name: c.Name}, nil
		}
	}
	return Principal{}, verdict.Refuse(verdict.TokenSub, "certificate", "no caller of this gate has the certificate URI %.200q", leaf.URIs[0].String())
}

// Named is the caller with a name, for requests that the operator counts as theirs.
func (b Book) Named(name string) (Principal, error) {
	if b.callers[name].Name == "" {
		return Principal{}, verdict.Refuse(verdict.TokenSub, "request", "the request has no credential, and there is no caller %q for it", name)
	}
	return Principal{name: name}, nil
}

// parseToken parses a token, and refuses every form in which a token could
// choose how it is verified.
func parseToken(token string) (*jose.JSONWebSignature, error) {
	if len(token) > maxToken || strings.Count(token, ".") != 2 {
		return nil, verdict.Refuse(verdict.TokenParse, "token", "want a JWT of three parts and at most %d bytes", maxToken)
	}
	parsed, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		code := verdict.TokenParse
		if strings.Contains(err.Error(), "algorithm") { // the library has no error type for it
			code = verdict.TokenAlg
		}
		return nil, verdict.Refuse(code, "token", "the token is not a JWT signed with an accepted algorithm")
	}
	header := parsed.Signatures[0].Protected
	if header.JSONWebKey != nil || len(header.ExtraHeaders) > 0 && slices.ContainsFunc(forbiddenHeaders(), func(h jose.HeaderKey) bool {
		_, has := header.ExtraHeaders[h]
		return has
	}) {
		return nil, verdict.Refuse(verdict.TokenAlg, "token", "the token's header must not name or contain a key")
	}
	return parsed, nil
}

// forbiddenHeaders name or contain a key, or request unsupported features.
func forbiddenHeaders() []jose.HeaderKey {
	return []jose.HeaderKey{"jku", "x5u", "x5c", "x5t", "x5t#S256", "crit", "b64", "zip", "enc"}
}

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

// audience is a string or a list.
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

// read parses the payload of a token strictly: no duplicate keys, exact case.
func (c *claims) read(payload []byte) error {
	var all map[string]json.RawMessage
	err := strictjson.UnmarshalOpen(payload, c)
	if err == nil {
		err = strictjson.UnmarshalOpen(payload, &all)
	}
	if err != nil {
		return verdict.Refuse(verdict.TokenParse, "token", "the token's claims are malformed: %v", err)
	}
	c.all = map[string]string{}
	for name, raw := range all {
		var text string
		switch kind := raw[0]; {
		case kind == '"' && json.Unmarshal(raw, &text) == nil:
			c.all[name] = text
		case kind != '"' && kind != '{' && kind != '[' && kind != 'n': // true, false, or a number as written
			c.all[name] = string(raw)
		}
	}
	return nil
}

// checkTimes refuses a token that is not valid now.
func (c *claims) checkTimes(now time.Time) error {
	switch {
	case c.Expires == nil || c.Issued == nil:
		return verdict.Refuse(verdict.TokenTime, "token", "the token lacks the claim iat or exp")
	case !now.Before(c.expires().Add(skew)):
		return verdict.Refuse(verdict.TokenTime, "token", "the token expired at %s", c.expires().UTC().Format(time.RFC3339))
	case now.Add(skew).Before(unixTime(c.Issued)), c.NotBefore != nil && now.Add(skew).Before(unixTime(c.NotBefore)):
		return verdict.Refuse(verdict.TokenTime, "token", "the token is not valid yet")
	case c.expires().Sub(unixTime(c.Issued)) > maxLife:
		return verdict.Refuse(verdict.TokenTime, "token", "the token's lifetime exceeds %s", maxLife)
	}
	return nil
}

// expires returns the expiry of a token that has one.
func (c *claims) expires() time.Time { return unixTime(c.Expires) }

func unixTime(seconds *float64) time.Time { return time.Unix(int64(*seconds), 0) }
