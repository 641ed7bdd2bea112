package servers

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/scene"
	"github.com/waybill-release/waybill/test/servers/process"
)

// images is a registry that runs.
type images struct {
	// prefix is where its repositories are: host, port, and a path if there is one.
	prefix string
	// data is the directory of its files.
	data string
	// server is what answers first.
	server *process.Process
	// env is what users set to reach it.
	env    []string
	scheme string // of its addresses, http if it is empty
	// transport reaches it for attacks; nil for the default.
	transport http.RoundTripper
	// remove removes a tag over the network; nil to remove it from data.
	remove func(ctx context.Context, repository, tag string) error
}

// at is the registry as the place of a scene.
func (i images) at(s *scene.Scene) {
	s.Places.Images, s.Places.Transport, s.Places.Untag = i.prefix, i.transport, i.untag
	s.Env = append(s.Env, i.env...)
}

// config is how distribution is set up, beside its storage.
type config struct {
	program, version string // the program and its version
	keep             bool   // deleting is off
	readonly         bool
	more             string // more of its configuration
	http             string // more of its section http
}

// distribution starts a registry of distribution, version 2 or 3.
func distribution(t *testing.T, c config) images {
	t.Helper()
	address, data := process.Address(t), t.TempDir()
	if c.program == "" {
		c.program, c.version = process.Peer(t, "registry"), "v3.1.2"
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	text := fmt.Sprintf("version: 0.1\nstorage: {filesystem: {rootdirectory: %q}, delete: {enabled: %t}, maintenance: {readonly: {enabled: %t}}}\nhttp: {addr: %q, relativeurls: true%s}\nlog: {level: error, accesslog: {disabled: true}}\n%s", data, !c.keep, c.readonly, address, c.http, c.more)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := process.Start(t, process.Server{
		Name: "distribution", Version: c.version, Args: []string{c.program, "serve", path}, Env: []string{"OTEL_TRACES_EXPORTER=none"}, Ready: address,
	})
	return images{prefix: address, data: data, server: p}
}

// debian is the docker-registry of Debian.
func debian(t *testing.T) config {
	t.Helper()
	return config{program: process.Program(t, "docker-registry", "docker-registry"), version: "2.8.2"}
}

// untag removes a tag from the files of a registry: not every one does it over
// the network.
func (i images) untag(ctx context.Context, repository, tag string) error {
	if i.remove != nil {
		return i.remove(ctx, repository, tag)
	}
	if _, path, below := strings.Cut(i.prefix, "/"); below {
		repository = path + "/" + repository
	}
	return os.RemoveAll(filepath.Join(i.data, "docker", "registry", "v2", "repositories", repository, "_manifests", "tags", tag))
}

// htpasswd writes the file of a user with a password.
func htpasswd(t *testing.T, user, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "htpasswd")
	if err := os.WriteFile(path, fmt.Appendf(nil, "%s:%s\n", user, hash), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// dockerConfig writes a Docker configuration, and returns the variable that
// names its directory.
func dockerConfig(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "DOCKER_CONFIG=" + dir
}

// login is a Docker configuration with a password for one registry.
func login(t *testing.T, prefix, user, password string) string {
	t.Helper()
	host, _, _ := strings.Cut(prefix, "/")
	return dockerConfig(t, fmt.Sprintf(`{"auths": {%q: {"username": %q, "password": %q}}}`, host, user, password))
}

// basic sends a name and a password with every request.
type basic struct{ user, password string }

func (b basic) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.SetBasicAuth(b.user, b.password)
	return http.DefaultTransport.RoundTrip(r)
}

// nginx starts nginx with a server of its own. In text, ADDRESS is where it
// listens and DIR its directory.
func nginx(t *testing.T, text string) *process.Process {
	t.Helper()
	program, address, dir := process.Program(t, "nginx", "nginx"), process.Address(t), t.TempDir()
	temp := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temp += " " + kind + "_temp_path DIR/" + kind + ";"
	}
	all := "daemon off; pid DIR/pid; error_log stderr warn;\nUSER\nevents {}\nhttp { access_log off; " + temp + "\n" + text + "\n}\n"
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;" // its workers write below DIR
	}
	all = strings.NewReplacer("ADDRESS", address, "DIR", dir, "USER", user).Replace(all)
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(all), 0o600); err != nil {
		t.Fatal(err)
	}
	return process.Start(t, process.Server{
		Name: "nginx", Version: "1.22.1", Args: []string{program, "-p", dir, "-e", "stderr", "-c", path}, Dir: dir, Ready: address,
	})
}

// behind is a registry of distribution behind nginx: server is added to the
// server of nginx, and REGISTRY in it is the address of the registry.
func behind(t *testing.T, outside, server string) images {
	t.Helper()
	i := distribution(t, config{})
	p := nginx(t, outside+"\nserver { listen ADDRESS; proxy_set_header Host $http_host; proxy_request_buffering off;\n"+strings.ReplaceAll(server, "REGISTRY", "http://"+i.prefix)+"\n}")
	i.prefix = p.Ready
	return i
}

// rewritten serves the repositories of a registry below /hub. Nginx rewrites
// where uploads go, and where lists continue if link is true; everybody may
// read, and alice write.
func rewritten(t *testing.T, link bool) images {
	t.Helper()
	next := ""
	if link {
		next = "proxy_hide_header Link; add_header Link $next;"
	}
	i := behind(t, `map $upstream_http_link $next { default ""; "~^</v2/(?<rest>.*)$" "</v2/hub/$rest"; }`, fmt.Sprintf(`client_max_body_size 0;
location = /v2/ { return 200 "{}"; }
location /v2/hub/ {
  limit_except GET HEAD { auth_basic "lantern"; auth_basic_user_file %q; }
  proxy_pass REGISTRY/v2/; proxy_redirect ~^(?:http://[^/]+)?/v2/(.*)$ /v2/hub/$1; %s
}`, htpasswd(t, "alice", "right"), next))
	i.env, i.transport = []string{login(t, i.prefix, "alice", "right")}, basic{"alice", "right"}
	i.prefix += "/hub"
	files := images{data: i.data}
	i.remove = files.untag
	return i
}

// withTLS is a registry with a certificate of an authority of one's own.
func withTLS(t *testing.T) (images, authority) {
	t.Helper()
	a := newAuthority(t, "INSECURE LAB authority")
	certificate, key := a.server(t, time.Now().Add(time.Hour), "127.0.0.1", "localhost", "registry.example.test")
	i := distribution(t, config{http: fmt.Sprintf(", tls: {certificate: %q, key: %q}", certificate, key)})
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	i.scheme = "https"
	i.env, i.transport = []string{"SSL_CERT_FILE=" + a.File}, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	return i, a
}

// lacks asks a registry for what not every one can do, and lists what it cannot.
func (i images) lacks(t *testing.T) string {
	t.Helper()
	remote := openRemote(t, i.prefix+"/asked", transportOr(i.transport))
	d, raw := pushImage(t, remote, "demo")
	if err := remote.TagManifest(t.Context(), "demo", "v1", d, raw); err != nil {
		t.Fatal(err)
	}
	host, path, _ := strings.Cut(i.prefix+"/asked/", "/")
	status := func(rt http.RoundTripper, method, name, body string) int {
		request, err := http.NewRequestWithContext(t.Context(), method, cmp.Or(i.scheme, "http")+"://"+host+"/v2/"+path+name, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", registry.MediaTypeManifest)
		response, err := rt.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.StatusCode
	}
	var all []string
	rt, empty := transportOr(i.transport), digest.Of(digest.SHA256, []byte("{}")).String()
	for _, c := range []struct {
		what               string
		method, name, body string
		status             int
	}{
		{"referrers API", "GET", "demo/referrers/" + d.Digest.String(), "", 200},
		{"mounting", "POST", "other/blobs/uploads/?mount=" + empty + "&from=" + path + "demo", "", 201},
		{"refusing images without their layers", "PUT", "demo/manifests/v2", strings.Replace(string(raw), empty, "sha256:"+strings.Repeat("0", 64), 1), 400},
		{"deleting tags", "DELETE", "demo/manifests/v1", "", 202},
		{"deleting images", "DELETE", "demo/manifests/" + d.Digest.String(), "", 202},
	} {
		if status(rt, c.method, c.name, c.body) != c.status {
			all = append(all, c.what)
		}
	}
	if _, password := i.transport.(basic); password && status(http.DefaultTransport, "GET", "demo/tags/list", "") == http.StatusUnauthorized {
		all = append(all, "anonymous reading")
	}
	return strings.Join(all, ", ")
}
