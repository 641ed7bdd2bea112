package github

import (
	"os"
	"path/filepath"
	"testing"
)

// TestTokenIsForItsHost: a profile of others can name any host, so the token for a
// host of one's own goes only to the one that the user or the runner names.
func TestTokenIsForItsHost(t *testing.T) {
	const own = "github+https://github.example.test/o/r/v1"
	for _, c := range []struct {
		name, uri, variable, value, want string
	}{
		{"the host in GH_HOST", own, "GH_HOST", "GitHub.example.test", "enterprise"},
		{"the server of the runner", own, "GITHUB_SERVER_URL", "https://github.example.test", "enterprise"},
		{"this machine", "github+http://127.0.0.1:80/o/r/v1", "", "", "enterprise"},
		{"a host that only the address names", own, "", "", ""},
		{"another host", "github+https://github.example.test.attacker.test/o/r/v1", "GH_HOST", "github.example.test", ""},
		{"another port", "github+https://github.example.test:8443/o/r/v1", "GH_HOST", "github.example.test", ""},
		{"another host than the runner's", "github+https://attacker.test/o/r/v1", "GITHUB_SERVER_URL", "https://github.example.test", ""},
		{"a host in the configuration of gh", "github+https://configured.test/o/r/v1", "", "", "configured"},
		{"GitHub", "github://o/r/v1", "", "", "public"},
		{"GitHub, where GH_HOST is another host", "github://o/r/v1", "GH_HOST", "github.example.test", "public"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, value := range map[string]string{
				"GH_CONFIG_DIR": dir, "GH_HOST": "", "GITHUB_SERVER_URL": "", "GH_TOKEN": "public", "GH_ENTERPRISE_TOKEN": "enterprise",
			} {
				t.Setenv(name, value)
			}
			if c.variable != "" {
				t.Setenv(c.variable, c.value)
			}
			if err := os.WriteFile(filepath.Join(dir, "hosts.yml"), []byte("configured.test:\n    oauth_token: configured\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			a, err := Parse(c.uri)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := a.findToken(); err != nil || got.secret != c.want {
				t.Errorf("%q, %v, want %q", got.secret, err, c.want)
			}
		})
	}
}
