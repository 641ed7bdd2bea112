package gate

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/waybill-release/waybill/test/bench/far"
)

// scene is a service that can be asked, with all that it needs.
type scene struct {
	Request
	dir      string
	registry *far.Host
	host     string // of the registry
	issuer   *httptest.Server
	service  *service
	proxy    *service // only with [Soak]
	client   *http.Client
	bodies   [][]byte // a question about each image
	names    []image
	token    string
	policy   string
	mint     func(asker string) (string, error)
}

const (
	audience = "https://gate.example.test"
	asker    = "promoter"
)

func openScene(ctx context.Context, req Request, dir string) (s *scene, err error) {
	req.Abreast = max(1, req.Abreast)
	s = &scene{Request: req, dir: dir}
	defer func(opened *scene) {
		if err != nil {
			err = errors.Join(err, opened.close())
		}
	}(s)
	set, err := setOf(req.Images)
	if err != nil {
		return nil, err
	}
	need := 1
	if req.Way == Cold {
		need = req.N + 1 // and one to begin with
	}
	images, err := set.read(req.Seed, need)
	if err != nil {
		return nil, err
	}
	if s.registry, err = far.Open(filepath.Join(req.Seed, storageName), req.Trip); err != nil {
		return nil, err
	}
	s.host = s.registry.Name
	for _, at := range images {
		question, err := body(s.host, at)
		if err != nil {
			return nil, err
		}
		s.bodies, s.names = append(s.bodies, question), append(s.names, at)
	}
	if err := s.openIssuer(); err != nil {
		return nil, err
	}
	s.policy = policyName(set)
	if err := s.write(set); err != nil {
		return nil, err
	}
	if s.client, err = s.writeTLS(); err != nil {
		return nil, err
	}
	s.service, err = startService(ctx, filepath.Join(req.Bin, "waybill"), dir, "serve", req.Way == Soak)
	if err == nil && req.Way == Soak {
		s.proxy, err = startService(ctx, filepath.Join(req.Bin, "waybill"), dir, "proxy", true)
	}
	return s, err
}

func (s *scene) close() error {
	var err error
	for _, one := range []*service{s.service, s.proxy} {
		if one != nil {
			err = errors.Join(err, one.end())
		}
	}
	if s.client != nil {
		s.client.CloseIdleConnections()
	}
	if s.issuer != nil {
		s.issuer.Close()
	}
	if s.registry != nil {
		err = errors.Join(err, s.registry.Close())
	}
	return err
}

// openIssuer serves the keys of an issuer whose tokens are signed as those of
// most CI systems are, and mints one.
func (s *scene) openIssuer() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	jwk := jose.JSONWebKey{Key: key, KeyID: "one", Algorithm: "RS256", Use: "sig"}
	mux := http.NewServeMux()
	s.issuer = httptest.NewServer(mux)
	serve := func(path string, v any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v) })
	}
	serve("/.well-known/openid-configuration", map[string]string{"issuer": s.issuer.URL, "jwks_uri": s.issuer.URL + "/keys"})
	serve("/keys", jose.JSONWebKeySet{Keys: []jose.JSONWebKey{jwk.Public()}})
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jwk}, nil)
	if err != nil {
		return err
	}
	s.mint = func(asker string) (string, error) {
		now := time.Now()
		claims, err := json.Marshal(map[string]any{
			"iss": s.issuer.URL, "aud": audience, "sub": asker, "iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(2 * time.Hour).Unix(),
			"repository_id": "1234", "workflow_ref": "example/lantern/release.yml@refs/heads/main",
		})
		if err != nil {
			return "", err
		}
		signed, err := signer.Sign(claims)
		if err != nil {
			return "", err
		}
		return signed.CompactSerialize()
	}
	s.token, err = s.mint(asker)
	return err
}

// write writes what the service reads.
func (s *scene) write(set Set) error {
	for _, name := range []string{policyName(set), rootName} {
		raw, err := os.ReadFile(filepath.Join(s.Seed, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(s.dir, name), raw, 0o600); err != nil {
			return err
		}
	}
	secure := ""
	if s.Secure {
		secure = "tls: {certificate: tls.crt, key: tls.key}\n"
	}
	files := map[string]string{
		profileName: fmt.Sprintf(`apiVersion: waybill/v1
kind: Profile
name: bench
policy: %s
trustedRoot: %s
places:
  files: {canonical: "https://dl.example.test/{version}/", staging: "file:///nowhere/{version}/", release: "file:///nowhere/{version}/"}
  images: {canonical: registry.example.test, staging: %s, release: %[3]s}
`, policyName(set), rootName, s.host),
		"callers.yaml": s.callers(asker),
		"serve.yaml":   serviceFile + secure,
		"proxy.yaml":   serviceFile + secure + fmt.Sprintf("proxy: {registry: %[1]s, guarded: [%[1]s/]}\n", s.host),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

const serviceFile = `apiVersion: waybill/v1
kind: GateService
profile: profile.yaml
callers: callers.yaml
listen: 127.0.0.1:0
admin: 127.0.0.1:0
limits: {perCallerPerSecond: 1000000, rememberSeconds: 3600}
`

// callers are who may ask: one, of this name at the issuer.
func (s *scene) callers(asker string) string {
	return fmt.Sprintf(`audience: %s
callers: [{name: promoter, token: {issuer: %q, subject: %s, claims: {repository_id: "1234"}}}]
grants: [{caller: promoter, verbs: [verify, pull], from: [%[4]s/], to: [%[4]s/], channels: [none]}]
`, audience, s.issuer.URL, asker, s.host)
}

// request asks as the one caller that there is.
func (s *scene) request(ctx context.Context, body []byte) (*http.Request, error) {
	scheme := "http://"
	if s.Secure {
		scheme = "https://"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, scheme+s.service.callers+"/v1/decisions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Content-Type", "application/json")
	return req, nil
}
