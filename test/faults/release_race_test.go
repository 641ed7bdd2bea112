package faults_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/lease"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/test/faults"
	"github.com/waybill-release/waybill/test/scene"
)

// release makes the staged release public from a state directory of its own.
func (n *night) release(flags ...string) scene.Result {
	n.t.Helper()
	state := n.place + "-public"
	if _, err := os.Stat(staged.Path(state)); err != nil {
		if err := os.CopyFS(staged.Path(state), os.DirFS(staged.Path("state"))); err != nil {
			n.t.Fatal(err)
		}
	}
	return n.run(append([]string{"waybill", "release", scene.Version, "--profile", n.profile, "--state", state, "--confirm"}, flags...)...)
}

// tagged is what the tag of the release names, by its bytes.
func (n *night) tagged() string {
	n.t.Helper()
	resp, err := http.Get("http://" + staged.Lab.Registry + "/v2/release/" + n.place + "/lantern/manifests/" + scene.Version)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		n.t.Fatalf("%d %v", resp.StatusCode, err)
	}
	return string(raw)
}

// TestReleaseTagRace: somebody else sets the tag while a release is copied, or
// just after it was written. The one is not written over, the other is said, and
// a later run does not move what others set.
func TestReleaseTagRace(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		path  string
		after bool
		code  string
	}{
		"while it is copied":        {"/manifests/sha256:", false, "TAG_CONFLICT"},
		"just after it was written": {"/manifests/" + scene.Version + "$", true, "TAG_RACE"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNight(t)
			var once sync.Once
			var theirs string
			// They tag the first manifest that comes there, which is not the release's index.
			other := func(next http.Handler, body []byte, kind string) {
				once.Do(func() {
					theirs = string(body)
					req := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/v2/release/"+n.place+"/lantern/manifests/"+scene.Version, bytes.NewReader(body))
					req.Header.Set("Content-Type", kind)
					w := httptest.NewRecorder()
					if next.ServeHTTP(w, req); w.Code != http.StatusCreated {
						t.Errorf("tagging: %d %s", w.Code, w.Body)
					}
				})
			}
			var first []byte
			var kind string
			n.registry.Spoil(faults.Fault{Method: http.MethodPut, Path: "/manifests/", Do: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				if first == nil {
					first, kind = body, r.Header.Get("Content-Type")
				}
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
				next.ServeHTTP(w, r)
				if strings.HasSuffix(r.URL.Path, strings.TrimSuffix(row.path, "$")) || !row.after {
					other(next, first, kind)
				}
			}})
			want(t, n.release(), 1, row.code)
			if n.tagged() != theirs {
				t.Error("the tag does not name what they tagged")
			}
			n.registry.Heal()
			want(t, n.release(), 1, "TAG_CONFLICT")
			if n.tagged() != theirs {
				t.Error("a later run moved the tag")
			}
		})
	}
}

// TestReleaseLease: another run of the same release is kept out by its lease, and
// one that loses it writes no tag.
func TestReleaseLease(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	dir := filepath.Join(t.TempDir(), "leases")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	at, err := store.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	to, err := store.OpenWriter(dir)
	if err != nil {
		t.Fatal(err)
	}
	claim := func(now time.Time) *lease.Lease {
		held, err := lease.Claim(context.WithoutCancel(t.Context()), lease.Place{Place: at, Writer: to}, "lantern-"+scene.Version+".lease.json",
			lease.Config{Holder: "another run", Clock: func() time.Time { return now }})
		if err != nil {
			t.Error(err)
		}
		return held
	}
	theirs := claim(time.Now())
	want(t, n.release("--lease", dir), 3, "BUSY", "another run")
	if n.registry.Count(http.MethodPut, "") > 0 {
		t.Error("something was written")
	}
	if err := theirs.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	n.registry.Spoil(faults.Fault{Method: http.MethodPut, Path: "/manifests/", Do: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		once.Do(func() {
			theirs = claim(time.Now().Add(time.Hour)) // ours has run out by then
			time.Sleep(1500 * time.Millisecond)       // until ours is looked at again
		})
		next.ServeHTTP(w, r)
	}})
	want(t, n.release("--lease", dir, "--lease-term", "2s"), 3, "BUSY", "was claimed since")
	if n.registry.Count(http.MethodPut, "/manifests/"+scene.Version) > 0 {
		t.Error("a tag was written without the lease")
	}
	if err := theirs.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.registry.Heal()
	want(t, n.release("--lease", dir), 0, "OK ")
	want(t, n.release("--lease-term", "2s"), 2, "--lease-term")
}
