package github

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-release/waybill/pkg/backend/transport"
)

// token is a credential and where it was found.
type token struct{ secret, source string }

// findToken finds the token for a host, as GitHub's own command gh does: in
// GH_TOKEN or GITHUB_TOKEN for services of GitHub, in GH_ENTERPRISE_TOKEN or
// GITHUB_ENTERPRISE_TOKEN for the host of [Address.isOwn], or else in the
// configuration of gh under the name of the host. No token is ever used for
// another host: a profile that others wrote may name any. A token that gh keeps
// in the system's keyring is not found.
func (a Address) findToken() (token, error) {
	var names []string
	switch {
	case a.cloud():
		names = []string{"GH_TOKEN", "GITHUB_TOKEN"}
	case a.isOwn():
		names = []string{"GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"}
	}
	for _, name := range names {
		if secret := strings.TrimSpace(os.Getenv(name)); secret != "" {
			return token{secret, name}, nil
		}
	}
	path := configFile()
	raw, err := os.ReadFile(path)
	if err != nil {
		return token{}, nil //nolint:nilerr // most machines have no such file, and public releases need no token
	}
	var hosts map[string]struct {
		Token string `yaml:"oauth_token"`
	}
	if err := yaml.Unmarshal(raw, &hosts); err != nil {
		return token{}, fmt.Errorf("reading %q: not the configuration of gh", path) // the cause could quote the token
	}
	return token{strings.TrimSpace(hosts[a.Host].Token), path}, nil
}

// isOwn reports whether the user names the host besides the address: as GH_HOST, as
// GitHub's runners do in GITHUB_SERVER_URL, or because it is this machine.
func (a Address) isOwn() bool {
	at, err := url.Parse(a.scheme + "://" + a.Host)
	_, server, _ := strings.Cut(os.Getenv("GITHUB_SERVER_URL"), "://")
	return strings.EqualFold(os.Getenv("GH_HOST"), a.Host) || strings.EqualFold(strings.TrimSuffix(server, "/"), a.Host) ||
		err == nil && transport.Loopback(at.Hostname())
}

// configFile is where gh keeps the tokens of hosts.
func configFile() string {
	dir := os.Getenv("GH_CONFIG_DIR")
	if xdg := os.Getenv("XDG_CONFIG_HOME"); dir == "" && xdg != "" {
		dir = filepath.Join(xdg, "gh")
	}
	if data := os.Getenv("AppData"); dir == "" && runtime.GOOS == "windows" && data != "" {
		dir = filepath.Join(data, "GitHub CLI")
	}
	if dir == "" {
		home, _ := os.UserHomeDir() // without one there is no such file
		dir = filepath.Join(home, ".config", "gh")
	}
	return filepath.Join(dir, "hosts.yml")
}
