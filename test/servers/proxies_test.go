package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/test/scene"
	"github.com/waybill-release/waybill/test/servers/process"
)

// tlsSites is nginx with TLS: the files of a directory at addresses that differ
// in their certificates.
type tlsSites struct {
	authority                     authority
	right, wrong, expired, others string // addresses
	plain                         string
}

func startTLS(t *testing.T, root string) tlsSites {
	t.Helper()
	all := tlsSites{authority: newAuthority(t, "the authority of a company"), right: process.Address(t), wrong: process.Address(t), expired: process.Address(t), others: process.Address(t)}
	later, names := time.Now().Add(time.Hour), []string{"127.0.0.1", "files.example.test"}
	text := "server { listen ADDRESS; root " + root + "; }\n"
	for _, one := range []struct {
		address string
		by      authority
		until   time.Time
		names   []string
	}{
		{all.right, all.authority, later, names}, {all.wrong, all.authority, later, []string{"other.example.test"}},
		{all.expired, all.authority, time.Now().Add(-time.Hour), names}, {all.others, newAuthority(t, "another authority"), later, names},
	} {
		certificate, key := one.by.server(t, one.until, one.names...)
		text += fmt.Sprintf("server { listen %s ssl; ssl_certificate %s; ssl_certificate_key %s; root %s; }\n", one.address, certificate, key, root)
	}
	all.plain = nginx(t, text).Ready
	return all
}

// squid starts a proxy that wants a password, and resolves files.example.test to
// this machine.
func squid(t *testing.T) string {
	t.Helper()
	program, address, dir := process.Program(t, "squid", "squid"), process.Address(t), t.TempDir()
	hash, err := exec.CommandContext(t.Context(), process.Program(t, "openssl", "openssl"), "passwd", "-apr1", "se:cret").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"passwords": "lantern:" + string(hash), "hosts": "127.0.0.1 files.example.test\n", "squid.conf": strings.NewReplacer("ADDRESS", address, "DIR", dir).Replace(`
http_port ADDRESS
hosts_file DIR/hosts
auth_param basic program /usr/lib/squid/basic_ncsa_auth DIR/passwords
acl known proxy_auth REQUIRED
acl released dstdomain files.example.test
http_access deny !known
http_access allow released
http_access deny all
cache deny all
access_log stdio:DIR/access.log
cache_log DIR/cache.log
pid_filename none
coredump_dir DIR
shutdown_lifetime 0 seconds
`)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	everybodyReads(t, dir)
	if err := os.Chmod(dir, 0o777); err != nil { //nolint:gosec // it gives up being root, and writes its logs there
		t.Fatal(err)
	}
	process.Start(t, process.Server{Name: "squid", Version: "5.7", Args: []string{program, "-N", "-f", filepath.Join(dir, "squid.conf")}, Dir: dir, Ready: address})
	t.Cleanup(func() {
		if raw, err := os.ReadFile(filepath.Join(dir, "cache.log")); err == nil && t.Failed() {
			t.Logf("%s", raw)
		}
	})
	return address
}

// publishedFiles is a release in a directory, to be read through something.
func publishedFiles(t *testing.T) (s *scene.Scene, root string, read func(address string, env ...string) scene.Result) {
	t.Helper()
	root = t.TempDir()
	s = open(t, func(s *scene.Scene) {
		s.Places.Files, s.Places.Objects = root, disk(root)
		ownImages(t, s)
	})
	publish(t, s)
	path := "/release/lantern/" + scene.Version + "/"
	return s, root, func(address string, env ...string) scene.Result {
		t.Helper()
		before := s.Env
		defer func() { s.Env = before }()
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE"} {
			s.Env = append(s.Env[:len(s.Env):len(s.Env)], name+"=")
		}
		s.Env = append(s.Env, env...)
		return s.Verify(t.Context(), "--files", address+path, "--listing", root+path)
	}
}

// TestTLSAndProxies: an authority of one's own, and a proxy that wants a
// password. What does not work is named with what to do, and no password is
// printed.
func TestTLSAndProxies(t *testing.T) {
	_, root, read := publishedFiles(t)
	at, proxy := startTLS(t, root), squid(t)
	trusted := "SSL_CERT_FILE=" + at.authority.File
	proxied := func(user, password string) string { return "http://" + user + ":" + password + "@" + proxy }
	_, port, _ := strings.Cut(at.right, ":")
	_, plainPort, _ := strings.Cut(at.plain, ":")
	secure, plain := "https://files.example.test:"+port, "http://files.example.test:"+plainPort
	for _, c := range []struct {
		name    string
		address string
		env     []string
		status  int
		says    []string
	}{
		{"an authority of one's own", "https://" + at.right, []string{trusted}, 0, nil},
		{"an authority that is not named", "https://" + at.right, nil, 3, []string{"UNAVAILABLE", "unknown authority", "SSL_CERT_FILE"}},
		{"another authority", "https://" + at.others, []string{trusted}, 3, []string{"UNAVAILABLE", "unknown authority", "SSL_CERT_FILE"}},
		{"another host name", "https://" + at.wrong, []string{trusted}, 3, []string{"UNAVAILABLE", "use a host name that is in the server's certificate"}},
		{"an expired certificate", "https://" + at.expired, []string{trusted}, 3, []string{"UNAVAILABLE", "expired", "renew"}},
		{"plain http where TLS is spoken", "http://" + at.right, []string{trusted}, 3, []string{"UNAVAILABLE", "400"}},
		{"TLS where plain http is spoken", "https://" + at.plain, []string{trusted}, 3, []string{"UNAVAILABLE"}},
		{"a tunnel", secure, []string{trusted, "HTTPS_PROXY=" + proxied("lantern", "se%3Acret")}, 0, nil},
		{"plain http through a proxy", plain, []string{"HTTP_PROXY=" + proxied("lantern", "se%3Acret")}, 0, nil},
		{"a tunnel, the wrong password", secure, []string{trusted, "HTTPS_PROXY=" + proxied("lantern", "guess")}, 3, []string{"UNAVAILABLE", "407", "USER:PASSWORD@" + proxy}},
		{"a tunnel, no password", secure, []string{trusted, "HTTPS_PROXY=http://" + proxy}, 3, []string{"UNAVAILABLE", "407", "USER:PASSWORD@" + proxy}},
		{"plain http, the wrong password", plain, []string{"HTTP_PROXY=" + proxied("lantern", "guess")}, 3, []string{"UNAVAILABLE", "407", "USER:PASSWORD@" + proxy}},
		{"a host that the proxy forbids", "https://other.example.test:" + port, []string{trusted, "HTTPS_PROXY=" + proxied("lantern", "se%3Acret")}, 3, []string{"UNAVAILABLE", "403", "permit the host"}},
		{"past the proxy", secure, []string{trusted, "HTTPS_PROXY=" + proxied("lantern", "se%3Acret"), "NO_PROXY=files.example.test"}, 3, []string{"UNAVAILABLE", "files.example.test", "check the spelling of the host name"}},
		{"this machine, never through a proxy", "https://" + at.right, []string{trusted, "HTTPS_PROXY=http://127.0.0.1:1"}, 0, nil},
		{"a proxy that does not answer", secure, []string{trusted, "HTTPS_PROXY=" + strings.Replace(proxied("lantern", "guess"), proxy, "127.0.0.1:1", 1), "WAYBILL_PATIENCE=2s"}, 3, []string{"UNAVAILABLE", "127.0.0.1:1"}},
		{"a proxy that is no address", secure, []string{trusted, "HTTPS_PROXY=http://lantern:gu%ess@" + proxy}, 3, []string{"UNAVAILABLE", "HTTPS_PROXY is not the address of a proxy"}},
	} {
		r := read(c.address, c.env...)
		all := r.Stdout + r.Stderr
		if r.Code != c.status {
			t.Errorf("%s: status %d, want %d\n%s", c.name, r.Code, c.status, all)
			continue
		}
		for _, says := range c.says {
			if !strings.Contains(all, says) {
				t.Errorf("%s: %q is not said:\n%s", c.name, says, all)
			}
		}
		for _, secret := range []string{"se%3Acret", "se:cret", "guess", "gu%ess", "bGFudGVybj"} {
			if strings.Contains(all, secret) {
				t.Errorf("%s: %q is printed:\n%s", c.name, secret, all)
			}
		}
	}
	saw(t, row{
		Kind: "Web places", Server: "nginx with TLS, an authority of one's own", Version: "1.22.1", Works: "verify with SSL_CERT_FILE", Lacks: "nothing",
		Does: "another host name, an expired certificate and an unknown authority are UNAVAILABLE, each with its own next act",
	})
	saw(t, row{
		Kind: "Web places", Server: "squid, CONNECT and plain, basic authentication", Version: "5.7", Works: "verify with HTTPS_PROXY, HTTP_PROXY and NO_PROXY", Lacks: "nothing",
		Does: "407 and 403 are UNAVAILABLE and name the proxy; no password is printed; this machine is never reached through a proxy",
	})
}
