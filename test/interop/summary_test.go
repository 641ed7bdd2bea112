package interop

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/test/scene"
)

// TestGateSummary: the summary that a gate signs of what may be promoted is
// verified by cosign 3, as the verifier's and about that image, and as nothing
// else.
func TestGateSummary(t *testing.T) {
	bin := peers(t)
	s := setScene(t)
	if r := s.Stage(t.Context()); r.Code != 0 {
		t.Fatalf("%s\nended with status %d\n%s%s", r, r.Code, r.Stdout, r.Stderr)
	}
	gate := serveGate(t, s)
	staged := look(t, place{s.Lab.Registry + "/staging/lantern", "lantern"}, ":"+scene.Version)
	r := s.Run(t.Context(), "waybill", "gate", "check", staged.reference("index"), "--server", gate, "--to", s.Lab.Registry+"/prod/lantern", "--channel", "stable",
		"--release-version", scene.Version, "--identity-token", "caller=caller.token", "--summary", "summary.json")
	if r.Code != 0 {
		t.Fatalf("%s\nended with status %d\n%s%s", r, r.Code, r.Stdout, r.Stderr)
	}
	manifest := func(part string) string {
		t.Helper()
		from, err := registry.OpenRemote(staged.prefix, http.DefaultTransport)
		if err != nil {
			t.Fatal(err)
		}
		graph, err := registry.Graph(t.Context(), from, staged.repo, staged.index)
		if err != nil {
			t.Fatal(err)
		}
		raw := graph.Raw
		for _, child := range graph.Children {
			if child.Descriptor.Platform == part {
				raw = child.Raw
			}
		}
		name := strings.ReplaceAll(part, "/", "-") + ".json"
		write(t, s, name, string(raw))
		return s.Path(name)
	}
	write(t, s, "other.json", "{}")
	c := openCosign(t, s, filepath.Join(bin, "cosign3"))
	good := ask{verb: "verify-blob-attestation", role: "verifier", kind: vsa.PredicateType, bundle: s.Path("summary.json"), target: manifest("index")}
	for _, one := range []struct {
		name   string
		change func(*ask)
		want   bool
	}{
		{"the image", func(*ask) {}, true},
		{"a platform of it", func(a *ask) { a.target = manifest("linux/arm64") }, true},
		{"another file", func(a *ask) { a.target = s.Path("other.json") }, false},
		{"by another role", func(a *ask) { a.role = "release" }, false},
		{"of another kind", func(a *ask) { a.kind = "https://slsa.dev/provenance/v1" }, false},
	} {
		a := good
		one.change(&a)
		if err := c.verify(t.Context(), a); (err == nil) != one.want {
			t.Errorf("%s: %v", one.name, err)
		}
	}
}

// serveGate starts a gate that signs summaries, and returns its address.
func serveGate(t *testing.T, s *scene.Scene) string {
	t.Helper()
	issuer, subject := s.Lab.Identity("verifier")
	profile, err := os.ReadFile(s.Path("profile.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	token, err := s.Lab.Mint("verifier", map[string]any{"aud": "https://gate.example.test"})
	if err != nil {
		t.Fatal(err)
	}
	write(t, s, "caller.token", token)
	write(t, s, "verifier.token", s.Lab.Token("verifier"))
	write(t, s, "profile.yaml", string(profile)+"records: {verifier: \"https://verifier.example.test/v1\", policy: \"https://example.test/policy.yaml\"}\n")
	write(t, s, "callers.yaml", fmt.Sprintf(`audience: https://gate.example.test
callers: [{name: promoter, token: {issuer: %q, subject: %q}}]
grants: [{caller: promoter, verbs: [promote], from: [%[3]s/staging/], to: [%[3]s/prod/], channels: [stable]}]
`, issuer, subject, s.Lab.Registry))
	write(t, s, "service.yaml", `apiVersion: waybill/v1
kind: GateService
profile: profile.yaml
callers: callers.yaml
listen: 127.0.0.1:0
admin: 127.0.0.1:0
summaries: true
`)
	cmd := exec.CommandContext(t.Context(), filepath.Join(s.Bin, "waybill"), "gate", "serve", "service.yaml", "--identity-token", "verifier=verifier.token")
	cmd.Dir = s.Path(".")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the service did not start")
	}
	return "http://" + strings.Fields(lines.Text())[1]
}

func write(t *testing.T, s *scene.Scene, name, text string) {
	t.Helper()
	if err := os.WriteFile(s.Path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
