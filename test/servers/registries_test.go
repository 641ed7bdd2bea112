package servers

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/test/scene"
	"github.com/waybill-release/waybill/test/servers/process"
)

// TestRegistries takes the release through registries that others wrote, each
// set up in another way, and attacks it there.
func TestRegistries(t *testing.T) {
	other := distribution(t, config{}) // images are promoted from each registry to this one
	const fallback = "evidence is listed under the fallback tag"
	for _, c := range []struct {
		server, version string
		start           func(*testing.T) images
		does            string
	}{
		{"distribution", "3.1.2", func(t *testing.T) images { return distribution(t, config{}) }, fallback},
		{"distribution, deleting off", "3.1.2", func(t *testing.T) images { return distribution(t, config{keep: true}) },
			"no command of a release deletes an image; the operators of the registry remove an extra tag"},
		{"distribution, passwords", "3.1.2", withPassword, "name and password are read from the Docker configuration"},
		{"distribution, tokens", "3.1.2", withTokens, "the token server gives a token for each repository; an expired one is renewed"},
		{"distribution, own authority", "3.1.2", func(t *testing.T) images { i, _ := withTLS(t); return i }, "SSL_CERT_FILE names the certificate of the authority"},
		{"distribution behind nginx, below another path", "3.1.2, 1.22.1", func(t *testing.T) images { return rewritten(t, true) },
			"each blob is sent again; everybody may read, and a password is needed to write"},
		{"docker-registry of Debian", "2.8.2", func(t *testing.T) images { return distribution(t, debian(t)) }, fallback},
		{"crane registry serve", "0.22.1", crane, "more tags are asked for after a full page, which names no next one"},
	} {
		t.Run(strings.NewReplacer(" ", "-", ",", "").Replace(c.server), func(t *testing.T) {
			t.Parallel()
			i := c.start(t)
			lacks := i.lacks(t)
			s := open(t, i.at)
			everywhere(t, s, other.prefix)
			saw(t, row{"Registries", c.server, c.version, "all", lacks, c.does})
		})
	}
}

// everywhere takes the release through every command that reads or writes a
// registry, and attacks it.
func everywhere(t *testing.T, s *scene.Scene, other string) {
	t.Helper()
	ok(t, s.Stage(t.Context()))
	ok(t, s.Run(t.Context(), "waybill", "gate", "check", scene.Version, "--profile", "profile.yaml"))
	asked(t, s)
	ok(t, s.Release(t.Context()))
	ok(t, s.Verify(t.Context()))
	promoted(t, s, other)
	attack(t, s)
	// What revises a release deletes nothing, so it works where deleting is off.
	for _, revision := range []string{"--amend", "--withdraw"} {
		write(t, s, "release.token", s.Lab.Token("release"))
		ok(t, s.Run(t.Context(), "waybill", "seal", scene.Version, revision, "--at", "release", "--reason", "it flickers", "--profile", "profile.yaml", "--identity-token", "release=release.token", "--confirm"))
	}
	want(t, s.Verify(t.Context()), 1, "WITHDRAWN")
}

// asked asks the gate about the staged image, as a command and as a service.
func asked(t *testing.T, s *scene.Scene) {
	t.Helper()
	image := s.Places.Images + "/staging/lantern/lantern:" + scene.Version
	issuer, subject := s.Lab.Identity("release")
	ok(t, s.Run(t.Context(), "waybill", "verify", "image", image, "--trusted-root", "trusted_root.json", "--certificate-identity", subject, "--certificate-oidc-issuer", issuer))
	service := serve(t, s)
	write(t, s, "caller.token", caller(t, s))
	ok(t, s.Run(t.Context(), "waybill", "gate", "check", image, "--server", service, "--release-version", scene.Version, "--identity-token", "caller=caller.token"))
}

const audience = "https://gate.example.test"

// serve starts the gate as a service and returns its address.
func serve(t *testing.T, s *scene.Scene) string {
	t.Helper()
	issuer, subject := s.Lab.Identity("verifier")
	address := process.Address(t)
	write(t, s, "callers.yaml", fmt.Sprintf(`audience: %s
callers: [{name: promoter, token: {issuer: %q, subject: %q}}]
grants: [{caller: promoter, verbs: [verify], from: [%[4]s/staging/], to: [%[4]s/staging/], channels: [none]}]
`, audience, issuer, subject, s.Places.Images))
	write(t, s, "service.yaml", fmt.Sprintf("apiVersion: waybill/v1\nkind: GateService\nprofile: profile.yaml\ncallers: callers.yaml\nlisten: %s\nadmin: 127.0.0.1:0\n", address))
	process.Start(t, process.Server{
		Name: "waybill gate serve", Args: []string{filepath.Join(s.Bin, "waybill"), "gate", "serve", "service.yaml"}, Dir: s.Dir,
		Env: append([]string{"XDG_CACHE_HOME=" + s.Path("cache")}, s.Env...), Ready: address,
	})
	return "http://" + address
}

// caller is a token of the caller of the gate.
func caller(t *testing.T, s *scene.Scene) string {
	t.Helper()
	token, err := s.Lab.Mint("verifier", map[string]any{"aud": audience})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func write(t *testing.T, s *scene.Scene, name, text string) {
	t.Helper()
	if err := os.WriteFile(s.Path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// promoted promotes the staged image to another registry, by a plan.
func promoted(t *testing.T, s *scene.Scene, other string) {
	t.Helper()
	staged, err := registry.OpenRemote(s.Places.Images+"/staging/lantern", transportOr(s.Places.Transport))
	if err != nil {
		t.Fatal(err)
	}
	d, err := staged.Resolve(t.Context(), "lantern", scene.Version)
	if err != nil {
		t.Fatal(err)
	}
	to := other + "/" + strings.ToLower(filepath.Base(t.Name()))
	write(t, s, "m.yaml", fmt.Sprintf("registries:\n- {name: %s/staging/lantern, src: true}\n- {name: %s}\nimages:\n- {name: lantern, dmap: {%q: [%s]}}\n", s.Places.Images, to, d.Digest, scene.Version))
	write(t, s, "plan.json", ok(t, s.Run(t.Context(), "waybill", "promote", "plan", "m.yaml", "--output", "json")).Stdout)
	diff := func(state string) {
		t.Helper()
		want(t, s.Run(t.Context(), "waybill", "promote", "diff", "plan.json", "--output", "json"), 0, `"`+state+`": 1,`)
	}
	diff("missing")
	write(t, s, "verifier.token", s.Lab.Token("verifier"))
	for range 2 { // the second has nothing to do
		ok(t, s.Run(t.Context(), "waybill", "promote", "apply", "plan.json", "--profile", "profile.yaml", "--state", "promotions", "--identity-token", "verifier=verifier.token", "--confirm"))
	}
	diff("same")
}

// transportOr is a transport, or the default one.
func transportOr(rt http.RoundTripper) http.RoundTripper {
	if rt == nil {
		return http.DefaultTransport
	}
	return rt
}

// withPassword starts a registry that demands a password of everybody.
func withPassword(t *testing.T) images {
	t.Helper()
	i := distribution(t, config{more: fmt.Sprintf("auth: {htpasswd: {realm: lantern, path: %q}}\n", htpasswd(t, "alice", "right"))})
	i.env, i.transport = []string{login(t, i.prefix, "alice", "right")}, basic{"alice", "right"}
	return i
}

// crane starts the registry of go-containerregistry.
func crane(t *testing.T) images {
	t.Helper()
	address, data := process.Address(t), t.TempDir()
	p := process.Start(t, process.Server{
		Name: "crane", Version: "v0.22.1", Args: []string{process.Peer(t, "crane"), "registry", "serve", "--address", address, "--disk", data}, Ready: "http://" + address + "/v2/",
	})
	return images{prefix: address, data: data, server: p, remove: scene.Untagger("http://"+address, nil)}
}
