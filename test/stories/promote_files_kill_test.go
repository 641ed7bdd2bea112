package stories

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/transport"
)

// assassin stands before a bucket, and kills who writes to it at one write.
type assassin struct {
	proxy  *httputil.ReverseProxy
	at     atomic.Int32 // the write, counted down
	after  atomic.Bool  // the bucket took it
	victim atomic.Pointer[os.Process]
}

func (a *assassin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/upload/") || a.at.Add(-1) != 0 {
		a.proxy.ServeHTTP(w, r)
		return
	}
	if a.after.Load() {
		a.proxy.ServeHTTP(httptest.NewRecorder(), r)
	}
	if p := a.victim.Load(); p != nil {
		_ = p.Kill()
	}
	panic(http.ErrAbortHandler) // nobody is there to be answered
}

// goTo makes the list go to other places.
func (m mirror) goTo(places ...string) {
	m.t.Helper()
	text := fmt.Sprintf("filestores:\n- base: %s\n  src: true\n", m.bucket("staging/lantern/v0.1.0"))
	for _, p := range places {
		text += "- base: " + p + "\n"
	}
	m.write("artifacts/filestores/lantern/filepromoter-manifest.yaml", text)
}

// TestPromoteFilesKilled kills the promotion at each write, before and after the
// bucket took it: no file is there without its bundle or with other bytes, and
// the same command finishes.
func TestPromoteFilesKilled(t *testing.T) {
	m := openMirror(t)
	to, err := url.Parse(m.Lab.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	a := &assassin{proxy: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = to.Host }}}
	front := httptest.NewServer(a)
	defer front.Close()
	bucket := strings.Replace(front.URL, "http://", "gs+http://", 1)
	killed := 0
	for write := 1; write <= 4; write++ {
		for _, after := range []bool{false, true} {
			prefix := fmt.Sprintf("release/killed-%d-%t/", write, after)
			m.goTo(bucket + "/" + prefix)
			want(t, m.apply(), 0)
			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "waybill"), "promote", "apply", "files-plan.json", "--profile", "files-profile.yaml", "--state", "files-state", "--confirm")
			cmd.Dir = m.Dir
			a.after.Store(after)
			a.at.Store(int32(write))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			a.victim.Store(cmd.Process)
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() == -1 {
				killed++
			} else {
				t.Errorf("write %d: it was not killed: %v", write, err)
			}
			for name, body := range m.files {
				there := m.get(prefix + name)
				if there != nil && (string(there) != string(body) || m.get(prefix+name+".sigstore.json") == nil) {
					t.Errorf("write %d, taken %t: %s is there without its evidence, or otherwise", write, after, name)
				}
			}
			a.victim.Store(nil)
			want(t, m.apply("--confirm"), 0, "verified=2 required=2")
			for name, body := range m.files {
				if string(m.get(prefix+name)) != string(body) {
					t.Errorf("write %d, taken %t: %s did not come", write, after, name)
				}
			}
		}
	}
	if killed != 8 {
		t.Errorf("%d runs were killed, want 8", killed)
	}

	// A region that does not answer costs what goes there, and nothing else.
	t.Setenv(transport.PatienceVariable, "1s")
	m.goTo(m.bucket("release/partial"), "gs+http://127.0.0.1:1/release/partial")
	r := m.apply("--confirm")
	want(t, r, 3, "UNAVAILABLE", "gs+http://127.0.0.1:1/release/partial/", "the place did not answer about 2 files", "verified=2 required=4")
	for name, body := range m.files {
		if string(m.get("release/partial/"+name)) != string(body) {
			t.Errorf("%s is not in the region that answers", name)
		}
	}
	want(t, m.plan("--diff"), 3, "same 2, missing 0, other 0, unknown 2", "UNAVAILABLE")
}
