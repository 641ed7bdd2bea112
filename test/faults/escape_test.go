package faults_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-release/waybill/test/scene"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

// TestNoRequestGoesPastTheTransport runs the commands with every service of the
// lab behind a door that looks who comes in, and with a proxy for the rest of
// the world. The one transport begins each User-Agent with the name of the
// program, also where a library set its own, and also when it asks a proxy; so
// whatever comes without was sent by somebody else. That no package makes a
// client of its own is for the architecture test to say; this one is about what
// libraries do.
func TestNoRequestGoesPastTheTransport(t *testing.T) {
	n := newNight(t)
	var mu sync.Mutex
	var outside []string
	world := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		outside = append(outside, fmt.Sprintf("%s %s as %q", r.Method, r.Host, r.UserAgent()))
		w.WriteHeader(http.StatusForbidden)
	}))
	defer world.Close()
	env := []string{"HTTPS_PROXY=" + world.URL, "HTTP_PROXY=" + world.URL, "https_proxy=" + world.URL, "http_proxy=" + world.URL, "GOOGLE_APPLICATION_CREDENTIALS=" + credentials(t)}
	state, token := n.unsigned(), n.token()
	at := []string{scene.Version, "--profile", n.profile}
	with := func(command string, more ...string) []string {
		return append(append(strings.Fields(command), at...), more...)
	}
	image := n.registry.Host + "/release/" + n.place + "/lantern:" + scene.Version
	for _, c := range []struct {
		args []string
		code int // -1: any, but it must have ended by itself
	}{
		{with("waybill sign", "--state", state, "--identity-token", "release="+token, "--confirm"), 0},
		{with("waybill seal", "--state", state, "--identity-token", "release="+token, "--confirm"), 0},
		{with("waybill promote", "--state", "state", "--to", "release", "--confirm"), 0},
		{with("waybill status", "--state", "state"), 0},
		{with("waybill gate check"), 0},
		{with("waybill verify release"), 0},
		{with("k8s-verify-release"), 0},
		{[]string{"waybill", "inspect", image}, -1},
		{[]string{"waybill", "verify", "image", image, "--profile", n.profile}, -1},
		{[]string{"waybill", "gate", "image", image, "--profile", n.profile}, -1},
		{[]string{"waybill", "trust", "update", "--cache", t.TempDir()}, 3},
		{[]string{"k8s-verify-release", "v1.31.2"}, 3},
	} {
		r := runWith(t, env, c.args...)
		if c.code >= 0 {
			want(t, r, c.code)
		}
	}
	n.write("cloud.yaml", replaceRelease(t, n))
	want(t, runWith(t, env, "waybill", "promote", scene.Version, "--profile", "cloud.yaml", "--state", "state", "--to", "release", "--confirm"), 3)
	requests := 0
	for _, p := range n.proxies() {
		for _, r := range p.Seen() {
			requests++
			if !strings.HasPrefix(r.UserAgent, "waybill/") {
				t.Errorf("%s %s was sent by %q", r.Method, r.Path, r.UserAgent)
			}
		}
		if len(p.Seen()) == 0 {
			t.Errorf("nobody came to %s: it proves nothing", p.URL)
		}
	}
	for _, o := range outside {
		if !strings.Contains(o, `as "waybill/`) {
			t.Errorf("past the transport: %s", o)
		}
	}
	for _, host := range []string{"tuf-repo-cdn.sigstore.dev", "googleapis.com"} {
		if !contains(strings.Join(outside, "\n"), host) {
			t.Errorf("nobody asked for %s: it proves nothing; asked were %q", host, outside)
		}
	}
	t.Logf("%d requests to the lab and %d to the world were all of the transport", requests, len(outside))
}

// replaceRelease is the profile with a release place in the public cloud. What
// its libraries do for credentials is a test of package store/cloud.
func replaceRelease(t *testing.T, n *night) string {
	t.Helper()
	raw, err := os.ReadFile(staged.Path(n.profile))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(string(raw), "gs+"+n.bucket.URL+"/release/", "gs://release/", 1)
}

// credentials is a file of an account that does not exist.
func credentials(t *testing.T) string {
	t.Helper()
	path := t.TempDir() + "/account.json"
	secret := base64.StdEncoding.EncodeToString([]byte("nobody"))
	text := `{"type":"authorized_user","client_id":"nobody","client_secret":"` + secret + `","refresh_token":"nobody"}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
