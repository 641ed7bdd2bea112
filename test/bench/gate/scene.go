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
	client   *http.Client
	bodies   [][]byte // a question about each image
	token    string
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
		s.bodies = append(s.bodies, question)
	}
	if err := s.openIssuer(); err != nil {
		return nil, err
	}
	if err := s.write(set); err != nil {
		return nil, err
	}
	if s.client, err = s.writeTLS(); err != nil {
		return nil, err
	}
	s.service, err = startService(ctx, dir, req.Way == Soak, filepath.Join(req.Bin, "waybill"), "gate", "serve", "service.yaml")
	return s, err
}

func (s *scene) close() error {
	var err error
	if s.service != nil {
		err = s.service.end()
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
	now := time.Now()
	claims, err := json.Marshal(map[string]any{
		"iss": s.issuer.URL, "aud": audience, "sub": asker, "iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(2 * time.Hour).Unix(),
		"repository_id": "1234", "workflow_ref": "example/lantern/release.yml@refs/heads/main",
	})
	if err != nil {
		return err
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		return err
	}
	s.token, err = signed.CompactSerialize()
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
	verb, more := "verify", ""
	if s.Secure {
		more = "tls: {certificate: tls.crt, key: tls.key}\n"
	}
	if s.Registry != "" {
		verb, more = "pull", fmt.Sprintf("proxy: {registry: %q, guarded: [\"%[1]s/%s/\"]}\n", s.host, staging)
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
		"callers.yaml": fmt.Sprintf(`audience: %s
callers: [{name: promoter, token: {issuer: %q, subject: %s, claims: {repository_id: "1234"}}}]
grants: [{caller: promoter, verbs: [%s], from: [%[5]s/], to: [%[5]s/], channels: [none]}]
`, audience, s.issuer.URL, asker, verb, s.host),
		"service.yaml": `apiVersion: waybill/v1
kind: GateService
profile: profile.yaml
callers: callers.yaml
listen: 127.0.0.1:0
admin: 127.0.0.1:0
limits: {perCallerPerSecond: 1000000, rememberSeconds: 3600}
` + more,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
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
