package attacks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestFeatureSpelling: a requirement that is On for a repository is On for it at
// the command, whichever way the manifest of a promotion spells it; it is not
// where the image goes somewhere else.
func TestFeatureSpelling(t *testing.T) {
	if err := commands(); err != nil {
		t.Fatal(err)
	}
	y := newSwitchyard(t)
	name, digest, _ := strings.Cut(unprovenImage(t, y.w), "@")
	source := strings.TrimSuffix(name, "/"+repository)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	by := write("policy.yaml", y.text())
	write("m/images/a/images.yaml", "- name: "+repository+"\n  dmap: {\""+digest+"\": [\"v0.1.0\"]}\n")
	for _, row := range []struct {
		to   string
		want string // in what is said
		code int
	}{
		{inScope, "it counts as require", 1},
		{"REGISTRY.example.test/prod", "it counts as require", 1},
		{"registry.example.test./prod", string(verdict.ConfigParse), 2},
		{"registry.example.test:443/prod", "it counts as require", 1},
		{"registry.example.test:0443/prod", string(verdict.ConfigParse), 2},
		{"registry.example.test//prod", string(verdict.ConfigParse), 2},
		{"registry.example.test/./prod", string(verdict.ConfigParse), 2},
		{"registry.example.test:5000/prod", "it counts as off", 0},
		{"registry.example.test/production", "it counts as off", 0},
	} {
		write("m/manifests/a/promoter-manifest.yaml", "registries:\n- {name: "+source+", src: true}\n- {name: \""+row.to+"\"}\n")
		r := y.w.Run(t.Context(), "waybill", "gate", "check", filepath.Join(dir, "m"), "--policy", by, "--trusted-root", y.w.Path("trusted_root.json"), "--features", y.dir)
		said := r.Stdout + r.Stderr
		if r.Code != row.code || !strings.Contains(said, row.want) || (r.Code == 1) != strings.Contains(said, string(verdict.NoProvenance)) {
			t.Errorf("to %s: status %d, want %d and %q\n%s", row.to, r.Code, row.code, row.want, said)
		}
	}
}

// TestGatewayFeatureSpelling: the same at the service, whose caller says where an
// image goes, and may have a grant for another spelling of the place.
func TestGatewayFeatureSpelling(t *testing.T) {
	s := openSwitched(t)
	accepted(t, s.server.Follow(t.Context()))
	for _, row := range []struct {
		to, mode string
		status   int
	}{
		{toScope, "require", 403},
		{"registry.example.test:443/prod/lantern", "require", 403},
		{"registry.example.test:443/production/lantern", "off", 200},
		{toOther, "off", 200},
	} {
		status, d := s.may(s.bare, row.to)
		if status != row.status || len(d.Verdict.Features) != 1 || d.Verdict.Features[0].Mode != row.mode {
			t.Errorf("to %s: %d by %+v, want %d by %s", row.to, status, d.Verdict.Features, row.status, row.mode)
		}
	}
	for _, to := range []string{"prod/lantern", "registry.example.test/../prod/lantern", "registry.example.test:0443/prod/lantern", "127.1/prod/lantern", "registry.example.test/Prod/lantern"} {
		q := s.request()
		body(q, string(must[[]byte](t)(json.Marshal(api.Request{Schema: api.SchemaRequest, Decisions: []api.Question{{Verb: api.Promote, Image: s.bare, To: to}}}))))
		if status, _, raw := s.do(q); status != 422 || !strings.Contains(raw, string(verdict.Usage)) {
			t.Errorf("to %s: %d %s", to, status, raw)
		}
	}
}
