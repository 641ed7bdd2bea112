package lab_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"github.com/sigstore/sigstore-go/pkg/tuf"
	"github.com/waybill-release/waybill/test/lab"
)

// call makes a request and returns status and body.
func call(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// TestRestartIsTheSameWorld signs, stores and restarts: the old signature
// verifies against the new trusted root, and what was stored is there.
func TestRestartIsTheSameWorld(t *testing.T) {
	dir := t.TempDir()
	first, err := lab.Start(t.Context(), lab.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	content := &sign.PlainData{Data: []byte("x")}
	b, err := signAs(first, first.Token(lab.RoleRelease), content)
	if err != nil {
		t.Fatal(err)
	}
	img, err := random.Image(64, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := crane.Push(img, first.Registry+"/staging/app:v1"); err != nil {
		t.Fatal(err)
	}
	if code, body := call(t, "PUT", first.Bucket+"/staging/a", "object"); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	second := lab.NewWith(t, lab.Options{Dir: dir})
	if second.URLs != first.URLs || !bytes.Equal(second.TUFRoot, first.TUFRoot) {
		t.Errorf("another world: %+v, was %+v", second.URLs, first.URLs)
	}
	issuer, subject := second.Identity(lab.RoleRelease)
	expect(t, check(second.TrustedRoot, b, digestOf("x"), issuer, subject), "")
	again, err := signAs(second, second.Token(lab.RoleRelease), content)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, check(first.TrustedRoot, again, digestOf("x"), issuer, subject), "")
	entries, err := again.TlogEntries()
	if err != nil || len(entries) != 1 || entries[0].LogIndex() != 1 {
		t.Errorf("the log did not go on: %v, %v", entries, err)
	}
	if _, err := crane.Pull(second.Registry + "/staging/app:v1"); err != nil {
		t.Error(err)
	}
	if code, body := call(t, "GET", second.Bucket+"/staging/a", ""); code != 200 || body != "object" {
		t.Errorf("the object: %d %s", code, body)
	}
}

func TestTUFRefresh(t *testing.T) {
	l := lab.New(t)
	client, err := tuf.New(&tuf.Options{Root: l.TUFRoot, RepositoryBaseURL: l.TUF, CachePath: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	// The very bytes: what sigstore-go makes of them has its logs in no order.
	got, err := client.GetTarget("trusted_root.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, l.TrustedRoot) {
		t.Errorf("TUF gives another trusted root:\n%s\n%s", got, l.TrustedRoot)
	}
	if _, err := root.GetSigningConfig(client); err != nil {
		t.Error(err)
	}
	other := lab.New(t)
	if _, err := tuf.New(&tuf.Options{Root: other.TUFRoot, RepositoryBaseURL: l.TUF, CachePath: t.TempDir()}); err == nil {
		t.Error("another root accepted the repository")
	}
	old := lab.NewWith(t, lab.Options{Clock: func() time.Time { return time.Now().AddDate(-1, 0, 0) }})
	if _, err := tuf.New(&tuf.Options{Root: old.TUFRoot, RepositoryBaseURL: old.TUF, CachePath: t.TempDir()}); err == nil {
		t.Error("an expired repository was accepted")
	}
}

func TestAuthoritiesSayWhatTheyAre(t *testing.T) {
	l := lab.New(t)
	tr, err := root.NewTrustedRootFromJSON(l.TrustedRoot)
	if err != nil {
		t.Fatal(err)
	}
	var certs []*x509.Certificate
	for _, ca := range tr.FulcioCertificateAuthorities() {
		f := ca.(*root.FulcioCertificateAuthority)
		certs = append(append(certs, f.Root), f.Intermediates...)
	}
	for _, ta := range tr.TimestampingAuthorities() {
		s := ta.(*root.SigstoreTimestampingAuthority)
		certs = append(append(certs, s.Root, s.Leaf), s.Intermediates...)
	}
	if len(certs) != 5 {
		t.Errorf("%d certificates, want 5", len(certs))
	}
	for _, c := range certs {
		if !strings.Contains(c.Subject.String(), lab.Mark) {
			t.Errorf("subject %q", c.Subject)
		}
	}
}

func TestTokenThroughTheIssuer(t *testing.T) {
	l := lab.New(t)
	token, err := lab.RequestToken(t.Context(), l.Issuer, lab.TokenRequest{As: lab.RoleBuilder})
	if err != nil {
		t.Fatal(err)
	}
	b, err := signAs(l, token, &sign.PlainData{Data: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	issuer, subject := l.Identity(lab.RoleBuilder)
	expect(t, check(l.TrustedRoot, b, digestOf("x"), issuer, subject), "")
	for _, as := range []string{"", "nobody", "a b@example.invalid", "@example.invalid"} {
		if _, err := lab.RequestToken(t.Context(), l.Issuer, lab.TokenRequest{As: as}); err == nil {
			t.Errorf("a token for %q", as)
		}
	}
}

// TestStop takes one service away: what needs it fails, the rest goes on.
func TestStop(t *testing.T) {
	l := lab.New(t)
	if err := l.Stop("rekor"); err != nil {
		t.Fatal(err)
	}
	if _, err := signAs(l, l.Token(lab.RoleRelease), &sign.PlainData{Data: []byte("x")}); err == nil || !strings.Contains(err.Error(), "rekor") {
		t.Errorf("signing without a log: %v", err)
	}
	if code, _ := call(t, "GET", "http://"+l.Registry+"/v2/", ""); code != 200 {
		t.Errorf("the registry: %d", code)
	}
}

func TestPublish(t *testing.T) {
	l, dir := lab.New(t), t.TempDir()
	if _, err := lab.ReadPage(dir); !errors.Is(err, lab.ErrNotRunning) {
		t.Errorf("before: %v", err)
	}
	want, err := l.Publish(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := lab.ReadPage(dir)
	if err != nil || got.URLs != l.URLs || got.PID != os.Getpid() || len(got.Identities) != len(lab.Roles()) {
		t.Errorf("page: %+v, %v", got, err)
	}
	for path, content := range map[string][]byte{want.TrustedRoot: l.TrustedRoot, want.SigningConfig: l.SigningConfig, want.TUFRoot: l.TUFRoot} {
		if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, content) {
			t.Errorf("%s: %v", path, err)
		}
	}
	var text strings.Builder
	if err := got.WriteText(&text); err != nil || strings.ContainsAny(text.String(), "{}") || !strings.Contains(text.String(), l.Issuer) {
		t.Errorf("text: %v\n%s", err, &text)
	}
	if err := lab.Unpublish(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := lab.ReadPage(dir); !errors.Is(err, lab.ErrNotRunning) {
		t.Errorf("after: %v", err)
	}
}

func TestHoldIsExclusive(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	release, err := lab.Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lab.Hold(dir); !errors.Is(err, lab.ErrRunning) {
		t.Errorf("held twice: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if err := lab.Down(t.Context(), dir); !errors.Is(err, lab.ErrNotRunning) {
		t.Errorf("down: %v", err)
	}
}

// TestTornLog cuts the log's last line short, as a crash would.
func TestTornLog(t *testing.T) {
	dir := t.TempDir()
	l, err := lab.Start(t.Context(), lab.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"one", "two"} {
		if _, err := signAs(l, l.Token(lab.RoleRelease), &sign.PlainData{Data: []byte(s)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "state", "rekor.jsonl")
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(log, b[:len(b)-9], 0o600); err != nil {
		t.Fatal(err)
	}
	l = lab.NewWith(t, lab.Options{Dir: dir})
	_, body := call(t, "GET", l.Rekor+"/api/v2/checkpoint", "")
	if lines := strings.Split(body, "\n"); len(lines) < 2 || lines[1] != "1" {
		t.Errorf("checkpoint after the crash:\n%s", body)
	}
}

func TestNothingIsLeft(t *testing.T) {
	lab.New(t) // what a process starts once
	http.DefaultClient.CloseIdleConnections()
	before := runtime.NumGoroutine()
	var dirs []string
	for range 5 {
		l, err := lab.Start(t.Context(), lab.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := signAs(l, l.Token(lab.RoleRelease), &sign.PlainData{Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, l.Dir())
		if err := errors.Join(l.Close(), l.Close()); err != nil {
			t.Fatal(err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	deadline := time.After(5 * time.Second)
	for tick := time.Tick(time.Millisecond); runtime.NumGoroutine() > before+2; <-tick {
		select {
		case <-deadline:
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		default:
		}
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
}

func TestStateIsRefusedWhenBroken(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("nonsense")})
	if err := os.WriteFile(filepath.Join(dir, "state", "ct.key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := lab.Start(t.Context(), lab.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "ct.key") {
		t.Errorf("started on a broken key: %v", errors.Join(err, l.Close()))
	}
}
