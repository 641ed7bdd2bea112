// Package token gets the identity tokens with which certificates are
// requested.
//
// A [Source] is where tokens come from: a file, a continuous integration
// system, the metadata server of a cloud, a person at a terminal. [Parse]
// makes one from the word of an operator, ambient finds the one that the
// environment offers:
//
//	source, err := token.Parse("google:release@project.example.test", world)
//	text, err := source.Token(ctx)
//	claims, err := token.Read(text)
//
// A valid token is a secret. No error of this package, and no
// [Source.String], contains any part of one, or of an answer that may contain
// one. [Read] trusts nothing: the certificate authority verifies tokens, and
// reading them here only predicts the result.
//
// Other projects should not import this package: it changes without notice.
package token

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// audience is the default audience of tokens: what Fulcio expects of its
// issuers.
const audience = "sigstore"

// maxToken limits the size of a token, and of answers that contain one.
const maxToken = 64 << 10

// subject is the subject of findings about tokens.
const subject = "identity token"

// Source is where identity tokens come from. It is called whenever a
// certificate is needed, and returns a token that has not expired.
type Source interface {
	Token(ctx context.Context) (string, error)
	// String names the source for people.
	String() string
}

// World is what sources need of their environment.
type World struct {
	// Transport reaches the services that issue tokens.
	Transport http.RoundTripper
	// Env looks up an environment variable, as os.Getenv does.
	Env func(string) string
	// Clock is used to decide when a token is replaced.
	Clock func() time.Time
	// Audience of the tokens; by default what Fulcio expects.
	Audience string
	// Login shows a person where to log in, and with which code. Nil if there
	// is no person: then no login is ever requested.
	Login func(address, code string)
	// Issuer is where a person logs in, from the signing configuration.
	Issuer string
}

func (w World) audience() string {
	return cmp.Or(w.Audience, audience)
}

// Claims are the claims of a token.
type Claims struct {
	Issued, Begins, Expires time.Time // Begins is zero if the token does not say
	// Subject is what the holder signs to prove possession of the key to the
	// authority.
	Subject string

	issuer string
	names  []identity.Identity
}

// Identities are those that a certificate for the token might name; none if
// that is unknown.
func (c Claims) Identities() []identity.Identity { return c.names }

// Issuer is the issuer of the identity.
func (c Claims) Issuer() string { return c.issuer }

// claims is the JSON that the certificate authority uses.
type claims struct {
	Issuer    string  `json:"iss"`
	Subject   string  `json:"sub"`
	Email     string  `json:"email"`
	Expires   float64 `json:"exp"`
	Issued    float64 `json:"iat"`
	Begins    float64 `json:"nbf"`
	Workflow  string  `json:"job_workflow_ref"`
	Pipeline  string  `json:"ci_config_ref_uri"`
	Federated struct {
		Connector string `json:"connector_id"`
	} `json:"federated_claims"`
	Kubernetes struct {
		Namespace string `json:"namespace"`
		Account   struct {
			Name string `json:"name"`
		} `json:"serviceaccount"`
	} `json:"kubernetes.io"`
}

// Read reads the claims of a token without verifying it.
func Read(text string) (Claims, error) {
	malformed := verdict.Refuse(verdict.Usage, subject, "not a signed web token").Advise(fileAdvice)
	parts := strings.Split(text, ".")
	if len(parts) != 3 || len(text) > maxToken {
		return Claims{}, malformed
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return Claims{}, malformed
	}
	var said claims
	if json.Unmarshal(payload, &said) != nil { // the cause would quote it
		return Claims{}, verdict.Refuse(verdict.Usage, subject, "the claims of the token are not readable").Advise(fileAdvice)
	}
	c := Claims{Issued: moment(said.Issued), Expires: moment(said.Expires), Subject: said.Subject, issuer: said.Issuer}
	if said.Begins > 0 {
		c.Begins = moment(said.Begins)
	}
	c.Subject = cmp.Or(said.Email, c.Subject)
	c.issuer = cmp.Or(said.Federated.Connector, c.issuer) // an issuer that federates others
	c.names = said.names(c.issuer)
	return c, nil
}

// moment reads a numeric date; an impossible one counts as long past.
func moment(seconds float64) time.Time {
	if !(seconds > 0 && seconds < 1<<40) {
		return time.Unix(0, 0)
	}
	return time.Unix(int64(seconds), 0)
}

// names are the names that Fulcio puts into certificates, by the kinds of
// issuers that it supports.
func (c claims) names(issuer string) (list []identity.Identity) {
	add := func(subject string, kind identity.SANType) {
		list = append(list, identity.Identity{Issuer: issuer, Subject: subject, Type: kind})
	}
	if c.Email != "" {
		add(c.Email, identity.Email)
	}
	if c.Workflow != "" {
		add("https://github.com/"+c.Workflow, identity.URI)
	}
	if c.Pipeline != "" {
		add("https://"+c.Pipeline, identity.URI)
	}
	if k := c.Kubernetes; k.Namespace != "" && k.Account.Name != "" {
		add("https://kubernetes.io/namespaces/"+k.Namespace+"/serviceaccounts/"+k.Account.Name, identity.URI)
	}
	if u, err := url.Parse(c.Subject); err == nil && (u.Scheme == "https" || u.Scheme == "spiffe") && u.Host != "" {
		add(c.Subject, identity.URI)
	}
	return list
}

// skew is the tolerated difference of clocks: an issuer may say that the
// token begins now.
const skew = time.Minute

// Check refuses a token that has expired or is not valid yet, given the time
// after it was received.
func (c Claims) Check(now time.Time) error {
	switch {
	case !now.Before(c.Expires):
		return refused("the token expired at %s; get a new one", c.Expires.UTC().Format(time.RFC3339))
	case now.Add(skew).Before(c.Begins):
		return refused("the token becomes valid only in %s; check the clock", c.Begins.Sub(now).Round(time.Second))
	}
	return nil
}

// refused is the refusal of a source that cannot give a token.
func refused(format string, args ...any) error {
	return verdict.Refuse(verdict.TokenRefused, subject, format, args...)
}

// unavailable is the error of a source that does not answer. Its cause is
// only included if it cannot quote an answer.
func unavailable(place string, cause error) error {
	return &verdict.UnavailableError{Place: place, Op: "fetching an identity token", Err: cause}
}

// tokenPattern matches a JSON Web Token within other text: the beginning of a JSON
// object, twice, in base64, and a signature.
var tokenPattern = pattern.Lazy(`eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`)

// IsBare reports whether a text that should name a token contains a token
// itself. On a command line every account of the machine can read it.
func IsBare(text string) bool { return tokenPattern().MatchString(text) }

// Hide replaces tokens in a text that is stored or shown.
func Hide(text string) string { return tokenPattern().ReplaceAllString(text, "TOKEN") }
