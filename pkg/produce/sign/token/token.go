// Package token fetches the identity tokens with which a certificate authority
// is asked for a certificate.
//
// A [Source] is where tokens come from: a file, the service of a continuous
// integration system, a cloud's metadata server, a person at a terminal. [Parse]
// makes one from the word that an operator types, [Ambient] finds the one that
// the surroundings offer:
//
//	source, err := token.Parse("google:release@project.example.test", world)
//	text, err := source.Token(ctx)
//	claims, err := token.Read(text)
//
// A token is a secret for as long as it lives. No error of this package, and no
// [Source.String], has any part of one, or of an answer that may contain one.
// [Read] believes nothing: the certificate authority verifies tokens, and what
// is read here only tells early what it will say.
package token

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Audience is whom tokens are for where nothing else was said: what Fulcio
// expects of the issuers that it believes.
const Audience = "sigstore"

// maxToken bounds a token and the answers that carry one.
const maxToken = 64 << 10

// subject is what findings about tokens are of.
const subject = "identity token"

// Source is where identity tokens come from. It is asked whenever a
// certificate is needed, and answers with a token that has not expired.
type Source interface {
	Token(ctx context.Context) (string, error)
	// String names the source for people.
	String() string
}

// World is what sources need of their surroundings.
type World struct {
	// Transport is the way to whoever gives out tokens.
	Transport http.RoundTripper
	// Env looks up an environment variable, as os.Getenv does.
	Env func(string) string
	// Clock says when a token is due to be replaced.
	Clock func() time.Time
	// Audience of the tokens; default [Audience].
	Audience string
	// Login shows a person where to log in, in words and with a code. Nil
	// where there is no person: then nobody is ever asked.
	Login func(address, code string)
	// Issuer is where a person logs in, from the signing configuration.
	Issuer string
}

func (w World) audience() string {
	if w.Audience == "" {
		return Audience
	}
	return w.Audience
}

// Claims are what a token says.
type Claims struct {
	Issued, Begins, Expires time.Time // Begins is zero where it was not said
	// Subject is what its holder signs to show the authority that the key is
	// theirs.
	Subject string

	issuer string
	names  []identity.Identity
}

// Identities are those that a certificate for the token might name; none if
// that cannot be told.
func (c Claims) Identities() []identity.Identity { return c.names }

// Issuer is who vouches for the subject.
func (c Claims) Issuer() string { return c.issuer }

// claims is the wire form: what the certificate authority looks at.
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

// Read reads what a token says. It does not verify it.
func Read(text string) (Claims, error) {
	malformed := verdict.Refuse(verdict.Usage, subject, "it is not a signed web token").Advise(giveFile)
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
		return Claims{}, verdict.Refuse(verdict.Usage, subject, "its claims are not readable").Advise(giveFile)
	}
	c := Claims{Issued: moment(said.Issued), Expires: moment(said.Expires), Subject: said.Subject, issuer: said.Issuer}
	if said.Begins > 0 {
		c.Begins = moment(said.Begins)
	}
	if said.Email != "" {
		c.Subject = said.Email
	}
	if said.Federated.Connector != "" {
		c.issuer = said.Federated.Connector // one issuer that speaks for others
	}
	c.names = said.names(c.issuer)
	return c, nil
}

// moment reads a numeric date; what no clock will show has passed long ago.
func moment(seconds float64) time.Time {
	if !(seconds > 0 && seconds < 1<<40) {
		return time.Unix(0, 0)
	}
	return time.Unix(int64(seconds), 0)
}

// names are the names that Fulcio puts into certificates, by the kinds of
// issuers that it knows.
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

// skew is how far two clocks may be apart: whoever issues a token may say that it
// begins now.
const skew = time.Minute

// Check refuses a token that has expired, or is of a time to come. The time is
// that after the token was had.
func (c Claims) Check(now time.Time) error {
	switch {
	case !now.Before(c.Expires):
		return refused("it expired at %s; fetch a new one", c.Expires.UTC().Format(time.RFC3339))
	case now.Add(skew).Before(c.Begins):
		return refused("it is valid only in %s; is the clock wrong?", c.Begins.Sub(now).Round(time.Second))
	}
	return nil
}

// refused is the finding of a source that has none to give.
func refused(format string, args ...any) error {
	return verdict.Refuse(verdict.TokenRefused, subject, format, args...)
}

// unavailable is the error of a source that does not answer. Its cause is
// named only where it cannot quote an answer.
func unavailable(place string, cause error) error {
	return &verdict.UnavailableError{Place: place, Op: "fetching an identity token", Err: cause}
}
