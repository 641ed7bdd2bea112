package stories

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
)

// turnstile stands before a bucket and counts who comes for which object.
type turnstile struct {
	bucket http.Handler

	mu      sync.Mutex // owns what follows
	asked   map[string]int
	left    int           // objects until it stops; 0 for never
	stopped chan struct{} // closed when it does
}

func newTurnstile(t *testing.T, s ship) *turnstile {
	t.Helper()
	at, err := url.Parse(s.Lab.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	return &turnstile{bucket: httputil.NewSingleHostReverseProxy(at), asked: map[string]int{}}
}

// stopAfter lets n more objects through, and then nobody. What it returns is
// closed when somebody stands before it.
func (g *turnstile) stopAfter(n int) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked, g.left, g.stopped = map[string]int{}, n, make(chan struct{})
	return g.stopped
}

// open lets everybody through, and counts anew.
func (g *turnstile) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked, g.left = map[string]int{}, 0
}

// ServeHTTP implements [http.Handler].
func (g *turnstile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.passes(r) {
		<-r.Context().Done()
		return
	}
	g.bucket.ServeHTTP(w, r)
}

func (g *turnstile) passes(r *http.Request) bool {
	_, name, found := strings.Cut(r.URL.Path, "/o/kubernetes/"+upstream+"/")
	if !found { // a list
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left < 0 {
		return false
	}
	if g.left == 1 {
		g.left = -1
		close(g.stopped)
		return false
	}
	if g.left > 0 {
		g.left--
	}
	g.asked[name]++
	return true
}

// serve listens, and returns the address of the release there in a language.
func serveLanguage(t *testing.T, language string, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return language + srv.URL + "/release/kubernetes/" + upstream + "/"
}

// broken: a download that ends half way shows nothing, and the next fetches
// what is missing and nothing else.
func broken(t *testing.T, s ship) {
	gate := newTurnstile(t, s)
	args := []string{upstream, "--profile", "profile.yaml", "--only", "files", "--files", serveLanguage(t, "gs+", gate), "--download", "got"}
	for _, moment := range []struct {
		after int
		with  os.Signal
	}{{1, os.Kill}, {2, os.Interrupt}, {60, os.Kill}, {300, os.Interrupt}, {300, os.Kill}} {
		kept := whole(t, s)
		stopped := gate.stopAfter(moment.after)
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "k8s-verify-release"), args...)
		cmd.Dir = s.Dir
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case <-stopped:
		case err := <-ended:
			t.Fatalf("it ended before object %d: %v\n%s", moment.after, err, &said)
		}
		if err := cmd.Process.Signal(moment.with); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err == nil || strings.Contains(said.String(), "OK ") {
			t.Errorf("%v after %d objects: %v\n%s", moment.with, moment.after, err, &said)
		}
		if _, err := os.Stat(s.Path("got")); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%v after %d objects: something is to be seen: %v", moment.with, moment.after, err)
		}
		gate.once(t, kept)
	}
	kept := whole(t, s)
	if len(kept) < 300 {
		t.Errorf("%d files are whole", len(kept))
	}
	gate.open()
	r := s.Run(t.Context(), append([]string{"k8s-verify-release"}, args...)...)
	gate.once(t, kept)
	all := fmt.Sprintf("files %d, of which %d by an earlier run", len(gate.asked)+len(kept)-1, len(kept)-1) // the manifest is always asked for
	want(t, r, 0, "in part", "Not checked: images", all)
	want(t, s.Run(t.Context(), "k8s-verify-release", upstream, "--profile", "profile.yaml", "--only", "files", "--offline", "--files", "got"), 0, "in part", "Not checked: images")
}

// once: nothing is asked for twice, or although it is there.
func (g *turnstile) once(t *testing.T, kept map[string]bool) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, n := range g.asked {
		if n > 1 || kept[name] && name != releasemanifest.Name {
			t.Errorf("%s: asked for %d times, there already: %t", name, n, kept[name])
		}
	}
}

// whole are the files that wait for acceptance. Each that has a name of the
// release has its bytes.
func whole(t *testing.T, s ship) map[string]bool {
	t.Helper()
	kept := map[string]bool{}
	part := s.Path("got.part", "files")
	err := filepath.WalkDir(part, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".waybill-tmp-") {
			return err
		}
		name, err := filepath.Rel(part, path)
		if err != nil {
			return err
		}
		body, err := os.ReadFile(path)
		if name = filepath.ToSlash(name); err == nil && !bytes.Equal(body, s.read(t, name)) {
			t.Errorf("%s has other bytes", name)
		}
		kept[name] = true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// mirrored: a mirror is held against the places that the manifest names.
func mirrored(t *testing.T, s ship) {
	raw, err := os.ReadFile(s.Path("profile.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	public := strings.NewReplacer(strings.Replace(s.Lab.Bucket, "http://", "gs+http://", 1)+"/release/kubernetes/", "https://dl.k8s.io/release/",
		s.Lab.Registry+"/release/kubernetes", "registry.k8s.io").Replace(string(raw))
	if err := os.WriteFile(s.Path("public.yaml"), []byte(public), 0o600); err != nil {
		t.Fatal(err)
	}
	stale := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/"+shipped) {
			_, _ = w.Write([]byte("of yesterday"))
			return
		}
		newTurnstile(t, s).bucket.ServeHTTP(w, r)
	}
	mirror, old := serveLanguage(t, "gs+", newTurnstile(t, s)), serveLanguage(t, "gs+", http.HandlerFunc(stale))
	images := "registry.k8s.io=" + s.Lab.Registry + "/release/kubernetes"
	for _, r := range []struct {
		name   string
		places []string
		code   int
		said   []string
	}{
		{"both places", []string{"https://dl.k8s.io/release/" + upstream + "/=" + mirror, images}, 0, []string{"nothing extra",
			"Read from " + mirror + " instead of https://dl.k8s.io/release/" + upstream + "/", "Read from " + s.Lab.Registry + "/release/kubernetes instead of registry.k8s.io"}},
		{"what is above", []string{"https://dl.k8s.io/release=" + strings.TrimSuffix(mirror, upstream+"/"), images}, 0, []string{"nothing extra", "Read from " + mirror + " instead of "}},
		{"a mirror with other bytes", []string{"https://dl.k8s.io/release/" + upstream + "/=" + old, images}, 1, []string{"TAMPERED", shipped, "Read from " + old + " instead of "}},
		{"a place of nobody", []string{"https://dl.k8s.dev/=" + mirror}, 2, []string{"https://dl.k8s.io/release/" + upstream + "/"}},
		{"half a name", []string{"https://dl.k8s.io/rel=" + mirror}, 2, []string{"want the canonical address of the files, "}},
		{"no actual place", []string{"https://dl.k8s.io/"}, 2, []string{"want CANONICAL=ACTUAL"}},
		{"an empty place", []string{"https://dl.k8s.io/="}, 2, []string{"want CANONICAL=ACTUAL"}},
		{"two mirrors", []string{"https://dl.k8s.io/=" + mirror, "https://dl.k8s.io/release=" + mirror}, 2, []string{"already have another place"}},
	} {
		t.Run(r.name, func(t *testing.T) {
			args := []string{"k8s-verify-release", upstream, "--profile", "public.yaml"}
			for _, place := range r.places {
				args = append(args, "--place", place)
			}
			want(t, s.Run(t.Context(), args...), r.code, r.said...)
		})
	}
}

// served: a web server lists nothing. Nothing is then said of what is too much,
// unless somebody else lists the same files.
func served(t *testing.T, s ship) {
	web, list := serveLanguage(t, "", newTurnstile(t, s)), serveLanguage(t, "s3+", newTurnstile(t, s))
	for name, change := range map[string][2]string{"policy-open.yaml": {"closed: {files: require", `closed: {files: "off"`}, "open.yaml": {"policy: policy.yaml", "policy: policy-open.yaml"}} {
		raw, err := os.ReadFile(s.Path(strings.NewReplacer("policy-open", "policy", "open.yaml", "profile.yaml").Replace(name)))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.Path(name), []byte(strings.Replace(string(raw), change[0], change[1], 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open := func(more ...string) []string {
		return append([]string{"k8s-verify-release", upstream, "--profile", "open.yaml", "--files", web}, more...)
	}
	want(t, s.verify(t, "--files", web), 3, "NOT_LISTABLE")
	want(t, s.Run(t.Context(), open()...), 0, "in part", "search for extra files (the place cannot be listed)")
	want(t, s.verify(t, "--files", web, "--listing", list), 0, "nothing extra", "The files were listed at "+list+" and read from "+web)
	undo := s.add(t, "bin/linux/amd64/kubectl-again", []byte("x"))
	r, unseen := s.verify(t, "--files", web, "--listing", list), s.Run(t.Context(), open()...)
	undo()
	want(t, r, 1, "EXTRA", "extra=1")
	want(t, unseen, 0, "in part", "search for extra files") // and never complete
}

// The credentials that the bucket knows.
const labKey, labSecret = "LABKEY", "of the lab"

// signedFor reports whether a request is signed as S3 asks, with the secret.
func signedFor(r *http.Request) bool {
	said := r.Header.Get("Authorization")
	_, headers, _ := strings.Cut(said, "SignedHeaders=")
	headers, _, found := strings.Cut(headers, ",")
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil || !found || !strings.HasPrefix(said, "AWS4-HMAC-SHA256 Credential="+labKey+"/") {
		return false
	}
	again := &http.Request{Method: r.Method, Host: r.Host, Header: http.Header{}, URL: &url.URL{Scheme: "https", Host: r.Host, Path: r.URL.Path, RawPath: r.URL.EscapedPath(), RawQuery: r.URL.RawQuery}}
	for name := range strings.SplitSeq(headers, ";") {
		if values := r.Header.Values(name); len(values) > 0 {
			again.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	known := aws.Credentials{AccessKeyID: labKey, SecretAccessKey: labSecret}
	err = signer.SignHTTP(context.Background(), known, again, r.Header.Get("X-Amz-Content-Sha256"), "s3", "us-east-1", at)
	return err == nil && again.Header.Get("Authorization") == said
}

// guarded: a bucket that does not answer everybody is read with the credentials
// of the environment by waybill, and not by the small program, which has none.
func guarded(t *testing.T, s ship) {
	bucket := newTurnstile(t, s).bucket
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !signedFor(r) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte("<Error><Code>AccessDenied</Code></Error>"))
			return
		}
		bucket.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := os.WriteFile(s.Path("bucket.pem"), authority, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"SSL_CERT_FILE": s.Path("bucket.pem"), "AWS_ACCESS_KEY_ID": labKey, "AWS_SECRET_ACCESS_KEY": labSecret, "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "",
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": s.Path("none"), "AWS_SHARED_CREDENTIALS_FILE": s.Path("none"), "AWS_REGION": "us-east-1", "AWS_CA_BUNDLE": "",
	} {
		t.Setenv(name, value)
	}
	args := []string{"verify", "release", upstream, "--profile", "profile.yaml", "--files", "s3+" + srv.URL + "/release/kubernetes/" + upstream + "/"}
	want(t, s.Run(t.Context(), append([]string{"k8s-verify-release"}, args[2:]...)...), 3, "403 Forbidden", "waybill verify release sends the credentials of the environment")
	r := s.Run(t.Context(), append([]string{"waybill"}, args...)...)
	want(t, r, 0, "nothing extra")
	if strings.Contains(r.Stdout+r.Stderr, labSecret) {
		t.Error("a secret was printed")
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "of another lab")
	want(t, s.Run(t.Context(), append([]string{"waybill"}, args...)...), 3, "AccessDenied", "nothing was decided")
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	want(t, s.Run(t.Context(), append([]string{"waybill"}, args...)...), 3, "set AWS_ACCESS_KEY_ID")
}
