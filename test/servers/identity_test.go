package servers

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/test/scene"
	"github.com/waybill-release/waybill/test/servers/process"
)

const (
	gateAudience = "https://gate.example.test"
	releaser     = "ann@dex.invalid"
	stranger     = "eve@dex.invalid"
	// dexSecret is the secret of each client and the password of each user.
	dexSecret = "not-a-secret"
)

// dex is an issuer that runs.
type dex struct {
	*process.Process

	issuer string
}

func openDex(t *testing.T) dex {
	t.Helper()
	issuer := "http://" + process.Address(t) + "/dex"
	return dex{process.Start(t, process.Server{
		Name: "dex", Version: "v2.13.0",
		Args:  []string{process.Peer(t, "dex"), "-issuer", issuer, "-clients", "sigstore," + gateAudience, "-users", releaser + "," + stranger},
		Ready: issuer + "/healthz",
	}), issuer}
}

// token logs a user in by the code flow, as a browser does, and returns the ID
// token that the client gets.
func (d dex) token(t *testing.T, client, user string) string {
	t.Helper()
	const back = "http://127.0.0.1/callback"
	ask := url.Values{"client_id": {client}, "redirect_uri": {back}, "response_type": {"code"}, "scope": {"openid email"}, "state": {"s"}, "nonce": {"n"}}
	login := d.step(t, http.MethodGet, d.issuer+"/auth?"+ask.Encode(), nil)
	approval := d.step(t, http.MethodPost, login, url.Values{"login": {user}, "password": {dexSecret}})
	home, err := url.Parse(d.step(t, http.MethodGet, approval, nil))
	if err != nil || !strings.HasPrefix(home.String(), back) {
		t.Fatalf("dex leads to %s: %v", home, err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.issuer+"/token", strings.NewReader(url.Values{
		"grant_type": {"authorization_code"}, "code": {home.Query().Get("code")}, "redirect_uri": {back},
	}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.SetBasicAuth(url.QueryEscape(client), url.QueryEscape(dexSecret))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var said struct {
		Token string `json:"id_token"`
	}
	if err := json.NewDecoder(response.Body).Decode(&said); err != nil || said.Token == "" {
		t.Fatalf("dex answers %s without a token: %v", response.Status, err)
	}
	return said.Token
}

// step makes one request of the code flow, and returns where it leads.
func (d dex) step(t *testing.T, method, address string, form url.Values) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := http.DefaultTransport.RoundTrip(request) // follows nothing
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	to, err := response.Location()
	if err != nil {
		body, _ := io.ReadAll(response.Body) // for the message
		t.Fatalf("%s %s: %s leads nowhere: %v: %s", method, address, response.Status, err, body)
	}
	return to.String()
}

// clock sets dex's clock ahead, or back.
func (d dex) clock(t *testing.T, ahead time.Duration) {
	t.Helper()
	at, err := url.Parse(d.issuer)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Post("http://"+at.Host+"/clock", "text/plain", strings.NewReader(ahead.String()))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatal(response.Status)
	}
}

// claim is a claim of a token, unverified.
func claim(t *testing.T, token, name string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(parts[len(parts)-2])
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(raw, &claims); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(claims[name])
}

// small is a scene of a release of two files.
func small(t *testing.T, issuers ...string) *scene.Scene {
	t.Helper()
	dir, err := suite.built()
	if err != nil {
		t.Fatal(err)
	}
	project := t.TempDir()
	for name, text := range map[string]string{"release.yaml": scene.Quick, "LICENSE": "free\n"} {
		if err := os.WriteFile(filepath.Join(project, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := scene.Open(t.Context(), scene.Options{Verbose: true, Bin: dir, Dir: t.TempDir(), Example: project, Issuers: issuers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// change replaces a part of a file of a scene.
func change(t *testing.T, s *scene.Scene, name, old, text string) {
	t.Helper()
	raw, err := os.ReadFile(s.Path(name))
	if err == nil && !bytes.Contains(raw, []byte(old)) {
		err = fmt.Errorf("%s does not have %q", name, old)
	}
	if err == nil {
		err = os.WriteFile(s.Path(name), bytes.ReplaceAll(raw, []byte(old), []byte(text)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDexSigns seals a release with a token of dex: the certificate of Fulcio
// names dex, and only a policy that names dex accepts the release.
func TestDexSigns(t *testing.T) {
	t.Parallel()
	d := openDex(t)
	s := small(t, d.issuer)
	issuer, subject := s.Lab.Identity("release")
	lab := fmt.Sprintf("release: [{issuer: %q, subject: %q, type: email}]", issuer, subject)
	byDex := func(user string) string {
		return fmt.Sprintf("release: [{issuer: %q, subject: %q, type: email}]", d.issuer, user)
	}
	change(t, s, "policy.yaml", lab, byDex(releaser))
	stage := func(token string) scene.Result {
		for role, text := range map[string]string{"builder": s.Lab.Token("builder"), "builder-unisolated": s.Lab.Token("builder-unisolated"), "release": token} {
			writeText(t, s.Path(role+".token"), text)
		}
		return s.Run(t.Context(), "waybill", "stage", scene.Version, "--profile", "profile.yaml", "--state", "state", "--source", "lantern", "--confirm",
			"--identity-token", "builder=builder.token", "--identity-token", "builder-unisolated=builder-unisolated.token", "--identity-token", "release=release.token")
	}
	// Tokens for another client, and tokens out of their time, get no certificate.
	want(t, stage(d.token(t, gateAudience, releaser)), 1, "TOKEN_REFUSED")
	d.clock(t, -time.Hour)
	want(t, stage(d.token(t, "sigstore", releaser)), 1, "TOKEN_REFUSED")
	d.clock(t, 0)
	// A token of another user is refused before anything is signed with it.
	want(t, stage(d.token(t, "sigstore", stranger)), 1, "SIGNED_AS_ELSE")
	// A clock that is ahead costs nothing: Fulcio reads when a token expires, and
	// not when it was issued.
	d.clock(t, time.Hour)
	want(t, stage(d.token(t, "sigstore", releaser)), 0)
	want(t, s.Release(t.Context()), 0)
	want(t, s.Verify(t.Context()), 0, releaser)
	for _, other := range []string{lab, byDex(stranger)} {
		change(t, s, "policy.yaml", byDex(releaser), other)
		want(t, s.Verify(t.Context()), 1, "IDENTITY")
		change(t, s, "policy.yaml", other, byDex(releaser))
	}
	want(t, s.Verify(t.Context()), 0)
	saw(t, row{
		Kind: "Identity", Server: "dex, for Fulcio", Version: "2.13.0", Works: "sealing and releasing as a user of dex; tokens for another client, of another user, or expired are refused",
		Lacks: "a password grant", Does: "the code flow; a token for another client is refused by Fulcio, after the build",
	})
}

// gateService is waybill gate serve, as a process.
type gateService struct {
	*process.Process

	scene          *scene.Scene
	callers, admin string
	image          string // with its digest
}

// openGate serves the gate in front of what a scene has staged.
func openGate(t *testing.T, s *scene.Scene, name, callers string) *gateService {
	t.Helper()
	g := &gateService{scene: s, callers: process.Address(t), admin: process.Address(t)}
	repository := s.Places.Images + "/staging/lantern"
	r, err := registry.OpenRemote(repository, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	found, err := r.Resolve(t.Context(), "lantern", scene.Version)
	if err != nil {
		t.Fatal(err)
	}
	g.image = repository + "/lantern@" + found.Digest.String()
	writeText(t, s.Path(name+"-callers.yaml"), fmt.Sprintf("audience: %s\n%s- {caller: promoter, verbs: [verify], from: [%[3]s/], to: [%[3]s/], channels: [none]}\n", gateAudience, callers, s.Places.Images+"/staging"))
	writeText(t, s.Path(name+".yaml"), fmt.Sprintf("apiVersion: waybill/v1\nkind: GateService\nprofile: profile.yaml\ncallers: %s-callers.yaml\nlisten: %s\nadmin: %s\n", name, g.callers, g.admin))
	g.Process = process.Start(t, process.Server{
		Name: "waybill gate serve", Dir: s.Path("."), Env: []string{"WAYBILL_PATIENCE=1s"},
		Args: []string{filepath.Join(s.Bin, "waybill"), "gate", "serve", name + ".yaml"}, Ready: "http://" + g.admin + "/readyz",
	})
	return g
}

// ask asks about an image, and returns the status and what was said.
func (g *gateService) ask(t *testing.T, token, image string) (int, string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	body := fmt.Sprintf(`{"schema":%q,"decisions":[{"verb":"verify","image":%q,"version":%q}]}`, api.SchemaRequest, image, scene.Version)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+g.callers+"/v1/decisions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(raw)
}

// promoterOf names the one caller of the gate.
func promoterOf(issuer, subject string) string {
	return fmt.Sprintf("callers:\n- {name: promoter, token: {issuer: %q, subject: %q}}\ngrants:\n", issuer, subject)
}

// TestDexCallers asks the gate with tokens of dex. Each refused one differs from
// the accepted one in one fact.
func TestDexCallers(t *testing.T) {
	t.Parallel()
	d := openDex(t)
	s := staged(t)
	good := d.token(t, gateAudience, releaser)
	g := openGate(t, s, "dex", promoterOf(d.issuer, claim(t, good, "sub")))
	other := openDex(t)
	later := func(ahead time.Duration) string {
		d.clock(t, ahead)
		defer d.clock(t, 0)
		return d.token(t, gateAudience, releaser)
	}
	for _, asked := range []struct {
		name, token string
		status      int
		said        string
	}{
		{"accepted", good, http.StatusOK, `"outcome":"accepted"`},
		{"another audience", d.token(t, "sigstore", releaser), http.StatusUnauthorized, "TOKEN_AUD"},
		{"another user", d.token(t, gateAudience, stranger), http.StatusUnauthorized, "TOKEN_SUB"},
		{"expired", later(-time.Hour), http.StatusUnauthorized, "TOKEN_TIME"},
		{"not valid yet", later(time.Hour), http.StatusUnauthorized, "TOKEN_TIME"},
		{"another issuer", other.token(t, gateAudience, releaser), http.StatusUnauthorized, "no caller of this gate uses the issuer"},
		{"accepted again", d.token(t, gateAudience, releaser), http.StatusOK, `"outcome":"accepted"`},
	} {
		if status, said := g.ask(t, asked.token, g.image); status != asked.status || !strings.Contains(said, asked.said) {
			t.Errorf("%s: %d, want %d and %s:\n%s", asked.name, status, asked.status, asked.said, said)
		}
	}
	// Its keys are in the service's memory: the issuer may be away for a while.
	d.Stop(t)
	if status, said := g.ask(t, good, g.image); status != http.StatusOK {
		t.Errorf("with the issuer away: %d\n%s", status, said)
	}
	saw(t, row{
		Kind: "Identity", Server: "dex, for callers of the gate", Version: "2.13.0", Works: "a caller by its subject; refused: another audience, user or issuer, and tokens expired or an hour ahead",
		Does: "`sub` is encoded by dex: take it from a token; the keys outlive an issuer that is away",
	})
}
