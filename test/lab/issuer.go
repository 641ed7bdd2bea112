package lab

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// The ready-made roles: one signing identity for each part of a release.
const (
	RoleBuilder           = "builder"            // signs provenance of isolated builds
	RoleBuilderUnisolated = "builder-unisolated" // signs provenance of unisolated builds
	RoleRelease           = "release"            // signs artifacts and the manifest
	RoleVerifier          = "verifier"           // signs verification summaries
	RolePolicy            = "policy"             // signs policies and known defects
)

// Roles are the ready-made roles.
func Roles() []string {
	return []string{RoleBuilder, RoleBuilderUnisolated, RoleRelease, RoleVerifier, RolePolicy}
}

// Subject is the e-mail address that certificates for as carry: a role's own,
// or as itself when it is an address.
func Subject(as string) (string, error) {
	if slices.Contains(Roles(), as) {
		return as + "@lab.invalid", nil
	}
	if user, host, ok := strings.Cut(as, "@"); ok && user != "" && strings.Contains(host, ".") && !strings.ContainsAny(as, " \t\r\n") {
		return as, nil
	}
	return "", fmt.Errorf("no role %q: name one of %s, or an e-mail address", as, strings.Join(Roles(), ", "))
}

// issuerKey is shared by the labs of a process, because making an RSA key
// takes longer than starting everything else; iss tells the labs apart.
var issuerKey = sync.OnceValues(func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// issuer is an OpenID Connect issuer that believes whatever it is told.
// Tokens are RS256: clients take a token given as text only in that form.
type issuer struct {
	url    string
	clock  func() time.Time
	signer jose.Signer
	jwks   jose.JSONWebKeySet
}

func newIssuer(url string, st *state, clock func() time.Time) (*issuer, error) {
	key, err := st.key("issuer", issuerKey)
	if err != nil {
		return nil, err
	}
	jwk := jose.JSONWebKey{Key: key, KeyID: "lab", Algorithm: "RS256", Use: "sig"}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jwk}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return nil, fmt.Errorf("making the token signer: %w", err)
	}
	return &issuer{url: url, clock: clock, signer: signer, jwks: jose.JSONWebKeySet{Keys: []jose.JSONWebKey{jwk.Public()}}}, nil
}

// mint signs a token for ten minutes; extra claims win over the usual ones.
// Numbers stay numbers and texts texts, as real issuers write them: times are
// numbers, and GitHub's run_id is a text of digits.
func (i *issuer) mint(email string, extra map[string]any) (string, error) {
	now := i.clock()
	claims := map[string]any{
		"iss": i.url, "aud": "sigstore", "sub": email, "email": email, "email_verified": true,
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(10 * time.Minute).Unix(),
	}
	maps.Copy(claims, extra)
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("writing a token for %q: %w", email, err)
	}
	token, err := i.signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("signing a token for %q: %w", email, err)
	}
	return token.CompactSerialize()
}

// TokenRequest asks a running lab for a token: POST it as JSON to
// <issuer>/lab/token. As is a role or an e-mail address.
type TokenRequest struct {
	As     string         `json:"as"`
	Claims map[string]any `json:"claims,omitempty"`
}

// TokenResponse answers a [TokenRequest].
type TokenResponse struct {
	Token string `json:"token"`
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "GET /.well-known/openid-configuration", "GET " + workflowsAt + "/.well-known/openid-configuration":
		writeJSON(w, map[string]any{
			"issuer": i.url + strings.TrimSuffix(r.URL.Path, "/.well-known/openid-configuration"), "jwks_uri": i.url + "/jwks",
			"authorization_endpoint": i.url + "/auth", "token_endpoint": i.url + "/token",
			"response_types_supported": []string{"id_token"}, "subject_types_supported": []string{"public"},
			"id_token_signing_alg_values_supported": []string{"RS256"},
		})
	case "GET /jwks":
		writeJSON(w, i.jwks)
	case "POST /lab/token":
		i.serveToken(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (i *issuer) serveToken(w http.ResponseWriter, r *http.Request) {
	var req TokenRequest
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
	decoder.UseNumber() // a time must stay an integer
	if err := decoder.Decode(&req); err != nil {
		http.Error(w, "reading the token request: "+err.Error(), http.StatusBadRequest)
		return
	}
	email, err := Subject(req.As)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	token, err := i.mint(email, req.Claims)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, TokenResponse{Token: token})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client went away: nothing to tell it
}

// Token mints an identity token for a role or an e-mail address. It panics on
// anything else.
func (l *Lab) Token(as string) string {
	token, err := l.Mint(as, nil)
	if err != nil {
		panic("lab: " + err.Error())
	}
	return token
}

// Mint is [Lab.Token] with claims added to, or put in place of, the usual ones.
func (l *Lab) Mint(as string, claims map[string]any) (string, error) {
	email, err := Subject(as)
	if err != nil {
		return "", err
	}
	return l.issuer.mint(email, claims)
}

// Identity is what certificates for a role or an e-mail address say. It panics
// on anything else.
func (l *Lab) Identity(as string) (issuer, subject string) {
	email, err := Subject(as)
	if err != nil {
		panic("lab: " + err.Error())
	}
	return l.Issuer, email
}
