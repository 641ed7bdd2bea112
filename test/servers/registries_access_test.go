package servers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/waybill-release/waybill/test/scene"
)

// tokens is a token server as registries have beside them: it gives signed
// tokens to users with a password, and tokens that only read to everybody.
type tokens struct {
	authority
	t       *testing.T
	url     string
	expired atomic.Int64 // how many of the next tokens have expired long ago
	given   atomic.Int64
}

const tokenService, tokenIssuer = "registry.example.test", "tokens.example.test"

func newTokens(t *testing.T) *tokens {
	t.Helper()
	s := &tokens{authority: newAuthority(t, "INSECURE LAB authority"), t: t}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = strings.Replace(server.URL, "127.0.0.1", "localhost", 1) + "/token"
	return s
}

// config is what distribution is told of the token server.
func (s *tokens) config() string {
	return fmt.Sprintf("auth: {token: {realm: %q, service: %q, issuer: %q, rootcertbundle: %q}}\n", s.url, tokenService, tokenIssuer, s.File)
}

func (s *tokens) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, password, named := r.BasicAuth()
	if named && (user != "alice" || password != "right") {
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"incorrect username or password"}]}`, http.StatusUnauthorized)
		return
	}
	type access struct {
		Type    string   `json:"type"`
		Name    string   `json:"name"`
		Actions []string `json:"actions"`
	}
	granted := []access{}
	for _, scope := range r.URL.Query()["scope"] {
		kind, rest, _ := strings.Cut(scope, ":")
		name, actions, _ := strings.Cut(rest, ":")
		a := access{kind, name, []string{"pull"}}
		if named {
			a.Actions = strings.Split(actions, ",")
		}
		granted = append(granted, a)
	}
	now := time.Now()
	if s.expired.Add(-1) >= 0 {
		now = now.Add(-2 * time.Hour)
	}
	s.given.Add(1)
	token, err := s.sign(map[string]any{
		"iss": tokenIssuer, "sub": user, "aud": tokenService, "jti": fmt.Sprint(s.given.Load()), "access": granted,
		"iat": now.Unix(), "nbf": now.Add(-time.Minute).Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"token": token, "expires_in": 300})
}

func (s *tokens) sign(claims map[string]any) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: s.key},
		(&jose.SignerOptions{}).WithType("JWT").WithHeader("x5c", [][]byte{s.certificate.Raw}))
	if err != nil {
		return "", err
	}
	return jwt.Signed(signer).Claims(claims).Serialize()
}

// bearer is a transport of the user for attacks.
func (s *tokens) bearer() http.RoundTripper { return granted{s} }

// granted sends a token for everything that is asked.
type granted struct{ s *tokens }

func (g granted) RoundTrip(r *http.Request) (*http.Response, error) {
	name := strings.TrimPrefix(r.URL.Path, "/v2/")
	for _, kind := range []string{"/manifests/", "/blobs/", "/referrers/", "/tags/"} {
		name, _, _ = strings.Cut(name, kind)
	}
	all := []string{"pull", "push", "delete"}
	token, err := g.s.sign(map[string]any{
		"iss": tokenIssuer, "sub": "alice", "aud": tokenService, "exp": time.Now().Add(time.Hour).Unix(),
		"access": []map[string]any{
			{"type": "repository", "name": name, "actions": all}, {"type": "repository", "name": r.URL.Query().Get("from"), "actions": all},
		},
	})
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return http.DefaultTransport.RoundTrip(r)
}

// withTokens starts a registry with a token server.
func withTokens(t *testing.T) images {
	t.Helper()
	s := newTokens(t)
	i := distribution(t, config{more: s.config()})
	i.env, i.transport = []string{login(t, i.prefix, "alice", "right")}, s.bearer()
	return i
}

// TestRegistryCredentials: what is wrong with credentials is named, with what to
// do, before anything is written.
func TestRegistryCredentials(t *testing.T) {
	s := newTokens(t)
	withTokens, withPassword := distribution(t, config{more: s.config()}), withPassword(t)
	none := []string{dockerConfig(t, "{}")}
	to := func(i images, user, password string) []string { return []string{login(t, i.prefix, user, password)} }
	for name, c := range map[string]struct {
		at     images
		env    []string
		code   int
		prints []string
	}{
		"token, right":    {withTokens, to(withTokens, "alice", "right"), 0, nil},
		"token, wrong":    {withTokens, to(withTokens, "alice", "wrong"), 3, []string{"incorrect username or password", "docker login"}},
		"token, none":     {withTokens, none, 3, []string{"UNAUTHORIZED", "docker login"}}, // everybody may read
		"password, right": {withPassword, to(withPassword, "alice", "right"), 0, nil},
		"password, wrong": {withPassword, to(withPassword, "alice", "wrong"), 3, []string{"UNAUTHORIZED", "docker login"}},
		"password, none":  {withPassword, none, 3, []string{"UNAUTHORIZED", "docker login"}},
		"old token":       {withPassword, []string{dockerConfig(t, fmt.Sprintf(`{"auths": {%q: {"registrytoken": "old"}}}`, withPassword.prefix))}, 3, []string{"UNAUTHORIZED", "docker login"}},
		"helper":          {withPassword, helper(t, withPassword.prefix, `echo '{"Username":"alice","Secret":"right"}'`), 0, nil},
		"helper, none":    {withPassword, helper(t, withPassword.prefix, `echo "credentials not found in native keychain"; exit 1`), 3, []string{"UNAUTHORIZED", "docker login"}},
		"helper, broken":  {withPassword, helper(t, withPassword.prefix, `echo hunter2; exit 1`), 3, []string{"credential helper failed", "docker login"}},
	} {
		t.Run(name, func(t *testing.T) {
			sc := open(t, func(sc *scene.Scene) {
				sc.Places.Images, sc.Env = c.at.prefix, append(append(sc.Env, c.env...), "WAYBILL_PATIENCE=3s")
			})
			r := want(t, sc.Run(t.Context(), "waybill", "promote", scene.Version, "--to", "staging", "--profile", "profile.yaml", "--state", "state", "--confirm"), c.code, c.prints...)
			if strings.Contains(r.Stdout+r.Stderr, "hunter2") {
				t.Error("it shows what the helper printed")
			}
			written, err := sc.Places.Objects.Get(t.Context(), "staging/lantern/"+scene.Version+"/lantern-linux-amd64.tar.gz")
			if there := err == nil && len(written) > 0; there != (c.code == 0) {
				t.Errorf("a file was written: %t (%v)", there, err)
			}
		})
	}
	s.expired.Store(1)
	sc := open(t, func(sc *scene.Scene) {
		sc.Places.Images, sc.Env = withTokens.prefix+"/again", append(sc.Env, to(withTokens, "alice", "right")...)
	})
	ok(t, sc.Run(t.Context(), "waybill", "promote", scene.Version, "--to", "staging", "--profile", "profile.yaml", "--state", "state", "--confirm"))
	if s.expired.Load() > 0 {
		t.Error("no expired token was given")
	}
	sc.Env = append(sc.Env, none...) // everybody may read
	issuer, subject := sc.Lab.Identity("release")
	ok(t, sc.Run(t.Context(), "waybill", "verify", "image", sc.Places.Images+"/staging/lantern/lantern:"+scene.Version,
		"--trusted-root", "trusted_root.json", "--certificate-identity", subject, "--certificate-oidc-issuer", issuer))
}

// helper is a Docker configuration with a credential helper that runs a script.
func helper(t *testing.T, prefix, script string) []string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker-credential-lantern"), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return []string{dockerConfig(t, fmt.Sprintf(`{"credHelpers": {%q: "lantern"}}`, prefix)), "PATH=" + dir + ":" + os.Getenv("PATH")}
}
