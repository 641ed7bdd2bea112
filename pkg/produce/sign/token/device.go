package token

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// device lets a person log in on a device with a browser (RFC 8628), with a
// proof that the same program requests and receives the token (RFC 7636).
type device struct {
	World
	client string
	pause  func(ctx context.Context, d time.Duration) error
}

// deviceSource is the source that lets the person at the terminal log in.
// Without one it is an error at once: a release never waits for a login that no
// person sees.
func deviceSource(w World) (Source, error) {
	if w.Login == nil {
		return nil, verdict.Refuse(verdict.Usage, "identity", "there is no terminal for a login; use --identity-token NAME=FILE or --identity ambient")
	}
	if w.Issuer == "" {
		return nil, verdict.Refuse(verdict.Usage, "identity", "the signing configuration has no issuer for logins")
	}
	return keep(device{World: w, client: audience, pause: transport.Sleep}, w.Clock), nil
}

// IsPerson reports whether a source requires a login by a person.
func IsPerson(source Source) bool {
	if k, is := source.(*kept); is {
		source = k.Source
	}
	_, is := source.(device)
	return is
}

// String names the issuer.
func (d device) String() string { return "a login at " + d.Issuer }

// endpoints is the part of an issuer's configuration that is needed here.
type endpoints struct {
	Issuer string `json:"issuer"`
	Device string `json:"device_authorization_endpoint"`
	Token  string `json:"token_endpoint"`
}

// login is an issuer's answer to the first request.
type login struct {
	Code     string  `json:"device_code"`
	UserCode string  `json:"user_code"`
	Address  string  `json:"verification_uri"`
	Complete string  `json:"verification_uri_complete"`
	Expires  float64 `json:"expires_in"`
	Interval float64 `json:"interval"`
}

// Token shows the person where to log in, and waits for the login.
func (d device) Token(ctx context.Context) (string, error) {
	at, err := d.discover(ctx)
	if err != nil {
		return "", err
	}
	verifier := rand.Text() + rand.Text()
	sum := sha256.Sum256([]byte(verifier))
	body, err := d.post(ctx, at.Device, url.Values{
		"client_id": {d.client}, "scope": {"openid email"},
		"code_challenge_method": {"S256"}, "code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])},
	})
	if err != nil {
		return "", hint(err, "the issuer does not support device logins")
	}
	var asked login
	if json.Unmarshal(body, &asked) != nil || asked.Code == "" || asked.UserCode == "" || asked.Address == "" {
		return "", refused("the answer of %s has no device login", d.Issuer)
	}
	asked.Address = cmp.Or(asked.Complete, asked.Address)
	if u, err := url.Parse(asked.Address); err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return "", refused("the login address of %s is not a web address", d.Issuer)
	}
	d.Login(asked.Address, asked.UserCode)
	return d.collect(ctx, at, asked, verifier)
}

// discover reads the issuer's configuration (OpenID Connect Discovery 1.0).
func (d device) discover(ctx context.Context) (at endpoints, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(d.Issuer, "/")+"/.well-known/openid-configuration", nil)
	if err != nil {
		return endpoints{}, verdict.Refuse(verdict.Usage, "identity", "the issuer %q is not a web address", d.Issuer)
	}
	body, _, err := ask(ctx, d.Transport, r)
	if err != nil {
		return endpoints{}, hint(err, "the address is not of a token issuer")
	}
	if json.Unmarshal(body, &at) != nil || at.Issuer != d.Issuer || at.Device == "" || at.Token == "" {
		return endpoints{}, refused("%s does not support device logins", d.Issuer)
	}
	return at, nil
}

// collect requests the token until the person has logged in.
func (d device) collect(ctx context.Context, at endpoints, asked login, verifier string) (string, error) {
	interval := max(time.Duration(asked.Interval)*time.Second, 5*time.Second)
	until := d.Clock().Add(min(max(time.Duration(asked.Expires)*time.Second, time.Minute), time.Hour))
	for d.Clock().Before(until) {
		if err := d.pause(ctx, interval); err != nil {
			return "", err
		}
		body, err := d.post(ctx, at.Token, url.Values{
			"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {asked.Code},
			"client_id": {d.client}, "code_verifier": {verifier},
		})
		var no *statusError
		switch {
		case err == nil:
			return field(body, d.Issuer, "id_token")
		case !errors.As(err, &no):
			return "", err
		}
		switch why, _ := field(body, d.Issuer, "error"); why {
		case "authorization_pending":
		case "slow_down":
			interval += 5 * time.Second
		case "access_denied":
			return "", refused("the login at %s was declined", d.Issuer)
		case "expired_token":
			return "", refused("the login at %s came too late; try again", d.Issuer)
		default:
			return "", hint(err, "try again")
		}
	}
	return "", refused("no login at %s in time; try again", d.Issuer)
}

func (d device) post(ctx context.Context, address string, form url.Values) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, refused("the configuration of %s contains an invalid address", d.Issuer)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	body, _, err := ask(ctx, d.Transport, r)
	return body, err
}
