package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/test/scene"
	"github.com/waybill-release/waybill/test/servers/process"
)

// hasty has commands try each request for a second only: for runs that have to
// fail. The runs around them have to succeed on a slow machine, too.
func (p published) hasty() published {
	own := *p.Scene
	own.Env = append(slices.Clone(own.Env), "WAYBILL_PATIENCE=1s")
	p.Scene = &own
	return p
}

// wire is a TCP connection to a server, which acts when some bytes of requests
// have passed.
type wire struct {
	address, server string
	passed          atomic.Int64
	mu              sync.Mutex // owns the rest
	limit           int64      // bytes after which act is called, once; 0 is never
	act             func()
}

// openWire listens in front of a server.
func openWire(t *testing.T, server string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	w := &wire{address: l.Addr().String(), server: server}
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go w.carry(c)
		}
	}()
	return w
}

// after has something happen once, after so many further bytes of requests.
func (w *wire) after(bytes int64, act func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit, w.act = w.passed.Load()+bytes, act
}

// cut publishes a release impatiently, ends the server after so many bytes of
// requests, and demands that the run fails as unavailable.
func (w *wire) cut(t *testing.T, p published, bytes int64, kill func()) {
	t.Helper()
	before, killed := w.passed.Load(), false
	w.after(bytes, func() {
		killed = true
		kill()
	})
	r := p.hasty().release(t)
	w.mu.Lock() // waits for a kill that goes on
	w.limit = 0
	w.mu.Unlock()
	if !killed {
		t.Fatalf("%s\nended with status %d and sent %d bytes; the server was to end after %d\n%s%s", r, r.Code, w.passed.Load()-before, bytes, r.Stdout, r.Stderr)
	}
	failed(t, r)
}

// Write counts bytes of requests.
func (w *wire) Write(b []byte) (int, error) {
	passed := w.passed.Add(int64(len(b)))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.limit > 0 && passed >= w.limit {
		w.limit = 0
		w.act()
	}
	return len(b), nil
}

// carry carries the bytes of a connection both ways.
func (w *wire) carry(c net.Conn) {
	defer c.Close()
	s, err := net.Dial("tcp", w.server)
	if err != nil {
		return // the client sees its connection end
	}
	defer s.Close()
	go func() {
		_, _ = io.Copy(c, s)
		_ = c.Close()
	}()
	_, _ = io.CopyBuffer(struct{ io.Writer }{s}, io.TeeReader(c, w), make([]byte, 4096))
}

// state is what lies where a release is published, past Waybill.
type state struct {
	tag      bool // the tag is there, and all that it leads to
	manifest bool // the manifest of the release is there
}

// object reads a file of the release, past Waybill; it fails with
// [os.ErrNotExist] if there is none.
type object func(ctx context.Context, name string) ([]byte, error)

// seen looks at what is public. A tag that leads to something that is not whole,
// and a manifest of a release that is not, fail the test.
func (p published) seen(t *testing.T, at repository, files object) (s state) {
	t.Helper()
	remote := at.open(t)
	d, err := remote.Resolve(t.Context(), at.name, scene.Version)
	switch {
	case errors.Is(err, registry.ErrNotFound):
	case err != nil:
		t.Fatal(err)
	default:
		s.tag = true
		if _, err := registry.Graph(t.Context(), remote, at.name, d); err != nil {
			t.Errorf("the tag is there, and what it leads to is not whole: %v", err)
		}
		if len(at.bundles(t, d.Digest)) == 0 {
			t.Error("the tag is there before its evidence")
		}
	}
	_, err = files(t.Context(), releasemanifest.Name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	s.manifest = err == nil
	if r := p.verify(t); (r.Code == 0) != s.manifest {
		t.Errorf("half of the release is public: %+v, and %s\nended with status %d\n%s%s", s, r, r.Code, r.Stdout, r.Stderr)
	}
	return s
}

// web reads files by plain HTTP.
func web(base string, client *http.Client) object {
	return func(ctx context.Context, name string) ([]byte, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+name, nil)
		if err != nil {
			return nil, err
		}
		response, err := client.Do(request)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		switch response.StatusCode {
		case http.StatusOK:
			return io.ReadAll(response.Body)
		case http.StatusNotFound:
			return nil, os.ErrNotExist
		}
		return nil, errors.New(response.Status)
	}
}

// inLab reads the published files of the laboratory's bucket.
func (p published) inLab() object {
	base, _ := strings.CutPrefix(p.Files, "gs+")
	return web(base+"/"+scene.Version+"/", http.DefaultClient)
}

// failed is a run that had to fail, as unavailable: not by a bug, and not
// because the release was refused.
func failed(t *testing.T, r scene.Result) {
	t.Helper()
	if r.Code != 3 {
		t.Errorf("%s\nended with status %d, want 3\n%s%s", r, r.Code, r.Stdout, r.Stderr)
	}
}

// TestFaultKilledRegistry kills distribution as kill -9 does, in the middle of a
// push. The tag is not there before all that it leads to, and a rerun converges.
func TestFaultKilledRegistry(t *testing.T) {
	t.Parallel()
	s := staged(t)
	address, server := openDistribution(t, t.TempDir())
	w := openWire(t, address)
	whole := elsewhere(t, s, "", w.address+"/whole")
	want(t, whole.release(t), 0)
	total := w.passed.Load()
	for i, share := range []int64{10, 50, 90, 99} {
		t.Run(fmt.Sprintf("after %d percent", share), func(t *testing.T) {
			p := elsewhere(t, s, "", fmt.Sprintf("%s/killed-%d", w.address, i))
			w.cut(t, p, total*share/100, func() { server.Kill(t) })
			server.Restart(t)
			if got := p.seen(t, repository{p.Images, "lantern"}, p.inLab()); got.manifest && share < 99 {
				t.Errorf("after the kill: %+v", got)
			}
			want(t, p.release(t), 0)
			if got := p.seen(t, repository{p.Images, "lantern"}, p.inLab()); got != (state{true, true}) {
				t.Errorf("after the rerun: %+v", got)
			}
		})
	}
	saw(t, row{
		Kind: "Faults", Server: "distribution, killed in a push", Version: "3.1.2",
		Works: "after 10, 50, 90 and 99 % of the bytes: unavailable; no manifest before the rest, a tag only with all that it leads to; a rerun converges",
	})
}

// TestFaultRestart restarts distribution during a promotion. Within its patience
// the same run goes on, or the next one does.
func TestFaultRestart(t *testing.T) {
	t.Parallel()
	s := staged(t)
	address, server := openDistribution(t, t.TempDir())
	w := openWire(t, address)
	p := elsewhere(t, s, "", w.address+"/restarted")
	again := make(chan struct{})
	w.after(1<<20, func() {
		server.Kill(t)
		go func() {
			defer close(again)
			server.Restart(t)
		}()
	})
	r := p.release(t)
	<-again
	if r.Code != 0 {
		failed(t, r)
		p.seen(t, repository{p.Images, "lantern"}, p.inLab())
		want(t, p.release(t), 0)
	}
	if got := p.seen(t, repository{p.Images, "lantern"}, p.inLab()); got != (state{true, true}) {
		t.Errorf("after the restart: %+v", got)
	}
	saw(t, row{
		Kind: "Faults", Server: "distribution, restarted in a promotion", Version: "3.1.2",
		Works: "the same run goes on, or the next one converges",
	})
}

// volume mounts a file system of its own, which is root's to do.
func volume(t *testing.T, options string) string {
	t.Helper()
	if os.Geteuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("only root can mount a small file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("mounting a small file system: %v", err)
		}
		t.Skipf("mounting a small file system: %v", err) // in a container without the right to
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func remount(t *testing.T, dir string, flags uintptr, options string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, options); err != nil {
		t.Fatal(err)
	}
}

// TestFaultDisk has distribution write to a disk that is read-only, then full.
func TestFaultDisk(t *testing.T) {
	t.Parallel()
	dir := volume(t, "size=1m")
	s := staged(t)
	address, _ := openDistribution(t, dir)
	p := elsewhere(t, s, "", address+"/disk")
	nothing := func(when string) {
		t.Helper()
		failed(t, p.hasty().release(t))
		if got := p.seen(t, repository{p.Images, "lantern"}, p.inLab()); got != (state{}) {
			t.Errorf("%s: %+v", when, got)
		}
	}
	remount(t, dir, syscall.MS_RDONLY, "size=1m")
	nothing("with a disk that is read-only")
	remount(t, dir, 0, "size=1m")
	nothing("with a disk that is full")
	remount(t, dir, 0, "size=256m")
	want(t, p.release(t), 0)
	if got := p.seen(t, repository{p.Images, "lantern"}, p.inLab()); got != (state{true, true}) {
		t.Errorf("with space again: %+v", got)
	}
	saw(t, row{
		Kind: "Faults", Server: "distribution, disk read-only, then full", Version: "3.1.2",
		Works: "unavailable, neither tag nor manifest; with space again a rerun converges",
	})
}

// openNginx runs nginx with the body of an http block. It runs in the foreground,
// with all of its files in a directory of its own, and returns its access log.
func openNginx(t *testing.T, address, http string) (accesses func() string) {
	t.Helper()
	program, dir := process.Program(t, "nginx", "nginx"), t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	config, log := filepath.Join(dir, "nginx.conf"), filepath.Join(dir, "access.log")
	var temporary strings.Builder
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temporary, "  %s_temp_path %s/%s;\n", kind, dir, kind)
	}
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;\n"
	}
	writeText(t, config, fmt.Sprintf("%sdaemon off;\nworker_processes 1;\npid %s/pid;\nerror_log stderr;\nevents {}\nhttp {\n  access_log %s;\n%s%s}\n", user, dir, log, temporary.String(), http))
	process.Start(t, process.Server{Name: "nginx", Version: nginxVersion(t), Args: []string{program, "-p", dir, "-c", config}, Ready: address})
	return func() string {
		raw, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
}

// nginxVersion is the version without what was mended in it.
func nginxVersion(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), process.Program(t, "nginx", "nginx"), "-v").CombinedOutput()
	found := regexp.MustCompile(`nginx/(\d+\.\d+)`).FindSubmatch(out)
	if err != nil || found == nil {
		t.Fatalf("nginx -v: %v: %s", err, out)
	}
	return string(found[1])
}

// TestFaultTooMany has nginx turn requests away that come too fast, with 429 and
// with 503, and say when to come again. The same run goes on at that pace.
func TestFaultTooMany(t *testing.T) {
	t.Parallel()
	registry, _ := openDistribution(t, t.TempDir())
	for _, status := range []int{429, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := staged(t)
			address := process.Address(t)
			accesses := openNginx(t, address, fmt.Sprintf(`  client_max_body_size 0;
  limit_req_zone $server_port zone=all:1m rate=20r/s;
  server {
    listen %s;
    limit_req zone=all burst=10 nodelay;
    limit_req_status %[2]d;
    error_page %[2]d @slow;
    location / { proxy_pass http://%[3]s; proxy_set_header Host $http_host; proxy_request_buffering off; }
    location @slow { internal; add_header Retry-After 1 always; return %[2]d; }
  }
`, address, status, registry))
			p := elsewhere(t, s, "", fmt.Sprintf("%s/slow-%d", address, status))
			want(t, p.release(t), 0)
			want(t, p.verify(t), 0)
			if away := strings.Count(accesses(), fmt.Sprintf(`" %d `, status)); away == 0 {
				t.Error("nginx turned nothing away")
			}
		})
	}
	saw(t, row{
		Kind: "Faults", Server: "nginx, 20 requests a second, 429 and 503 with Retry-After", Version: "1.22",
		Works: "the same run goes on at that pace",
	})
}

// dockerLogin writes a configuration with the password of a registry, as docker login
// does.
func dockerLogin(t *testing.T, dir, registry, password string) {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"auths": map[string]any{registry: map[string]string{"username": "ann", "password": password}}})
	if err != nil {
		t.Fatal(err)
	}
	writeText(t, filepath.Join(dir, "config.json"), string(raw))
}

// TestFaultCredentials changes the password of a registry in the middle of a push.
// The run fails; with the new password the next one converges.
func TestFaultCredentials(t *testing.T) {
	t.Parallel()
	program := process.Program(t, "htpasswd", "apache2-utils")
	dir, docker := t.TempDir(), t.TempDir()
	users, next := filepath.Join(dir, "htpasswd"), filepath.Join(dir, "next")
	for i, file := range []string{users, next} {
		if out, err := exec.Command(program, "-Bbc", file, "ann", []string{"old", "new"}[i]).CombinedOutput(); err != nil {
			t.Fatalf("htpasswd: %v\n%s", err, out)
		}
	}
	later := time.Now().Add(time.Minute) // distribution reads the file again if its time differs
	if err := os.Chtimes(next, later, later); err != nil {
		t.Fatal(err)
	}
	address, config := process.Address(t), filepath.Join(dir, "config.yaml")
	writeText(t, config, fmt.Sprintf("version: 0.1\nstorage: {filesystem: {rootdirectory: %q}}\nhttp: {addr: %q}\nauth: {htpasswd: {realm: lantern, path: %q}}\nlog: {level: error}\n", t.TempDir(), address, users))
	process.Start(t, process.Server{Name: "distribution", Version: "v3.1.2", Args: []string{process.Peer(t, "registry"), "serve", config}, Ready: "http://" + address + "/v2/"})
	w := openWire(t, address)
	s := staged(t, "DOCKER_CONFIG="+docker)
	p := elsewhere(t, s, "", w.address+"/secret")
	dockerLogin(t, docker, w.address, "old")
	w.after(1<<20, func() {
		if err := os.Rename(next, users); err != nil {
			t.Error(err)
		}
	})
	r := p.release(t)
	failed(t, r)
	if !strings.Contains(strings.ToUpper(r.Stderr), "UNAUTHORIZED") {
		t.Errorf("%s\ndoes not say that the registry wants other credentials\n%s", r, r.Stderr)
	}
	if _, err := p.inLab()(t.Context(), releasemanifest.Name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the manifest is public: %v", err)
	}
	dockerLogin(t, docker, w.address, "new")
	want(t, p.release(t), 0)
	want(t, p.verify(t), 0)
	saw(t, row{
		Kind: "Faults", Server: "distribution, password changed in a push", Version: "3.1.2",
		Works: "unavailable, no manifest; a rerun with the new password converges",
	})
}

// TestFaultClock publishes to a registry whose clock is an hour ahead, and to one
// that is an hour behind.
func TestFaultClock(t *testing.T) {
	t.Parallel()
	address, _ := openDistribution(t, t.TempDir())
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			s := staged(t)
			var first atomic.Bool
			to := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(&url.URL{Scheme: "http", Host: address})
				r.Out.Host = r.In.Host
			}}
			to.ModifyResponse = func(r *http.Response) error {
				now := time.Now().Add(ahead)
				r.Header.Set("Date", now.UTC().Format(http.TimeFormat))
				if r.Request.Method == http.MethodGet && first.CompareAndSwap(false, true) { // at peak time, by its clock
					r.StatusCode = http.StatusServiceUnavailable
					r.Header.Set("Retry-After", now.Add(2*time.Second).UTC().Format(http.TimeFormat))
				}
				return nil
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server := &http.Server{Handler: to}
			go func() { _ = server.Serve(l) }() // ends with Close
			t.Cleanup(func() { _ = server.Close() })
			p := elsewhere(t, s, "", fmt.Sprintf("%s/clock-%d", l.Addr(), ahead/time.Hour+1))
			want(t, p.release(t), 0)
			want(t, p.verify(t), 0)
		})
	}
	saw(t, row{
		Kind: "Faults", Server: "distribution, clock an hour ahead or behind", Version: "3.1.2",
		Works: "a release, also past a Retry-After that is a date by that clock",
	})
}
