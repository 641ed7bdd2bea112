package fetch_test

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/registry"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/produce/image"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// hub is a registry that notes which blobs are asked for. mu owns blobs and
// swap.
type hub struct {
	*httptest.Server
	mu    sync.Mutex
	blobs []string
	swap  bool // serve other blobs than those that were put there
}

func newHub(t *testing.T) *hub {
	h := &hub{}
	real := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if blob := r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/"); blob {
			h.blobs = append(h.blobs, r.URL.Path)
			if h.swap {
				_, _ = io.WriteString(w, "other bytes")
				return
			}
		}
		real.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

// asked counts the blobs asked for since the last call.
func (h *hub) asked() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.blobs)
	h.blobs = nil
	return n
}

// push puts an image there whose one file holds body, and returns its name by
// digest.
func (h *hub) push(t *testing.T, base image.Base, path, body string) string {
	t.Helper()
	file := image.File{Path: path, Mode: 0o755, Size: int64(len(body)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(body)), nil
	}}
	built, err := image.Build(t.Context(), image.Spec{
		Base: base, Entrypoint: []string{"/bin/cc"}, Created: time.Unix(1_700_000_000, 0),
		Platforms: []image.Platform{{OS: "linux", Arch: runtime.GOARCH, Files: []image.File{file}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(h.URL, "http://")
	remote, err := registry.OpenRemote(host, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := built.Write(t.Context(), remote, "tools/cc"); err != nil {
		t.Fatal(err)
	}
	return host + "/tools/cc@" + built.Descriptor.Digest.String()
}

func TestRoot(t *testing.T) {
	h, dir := newHub(t), t.TempDir()
	first := h.push(t, image.Scratch(), "/bin/cc", "compiler")
	below, err := image.FromRemote(t.Context(), first, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	second := h.push(t, below, "/bin/ld", "linker")
	h.asked()

	s := open(t, dir)
	root, err := s.Root(t.Context(), second)
	if err != nil {
		t.Fatal(err)
	}
	if names := tree(t, root.Dir); !slices.Equal(names, []string{"bin/cc", "bin/ld"}) {
		t.Errorf("root: %+v %q", root, names)
	}
	layers := h.asked() - 1 // and the configuration
	if layers != 2 {
		t.Errorf("%d layers were fetched", layers)
	}
	// What a step has done to it is gone the next time, and so is what anybody
	// has done to a layer.
	kept := filepath.Join(dir, "layers")
	for _, name := range tree(t, kept) {
		if err := os.Chmod(filepath.Join(kept, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spoilt := filepath.Join(kept, tree(t, kept)[0])
	for _, name := range []string{filepath.Join(root.Dir, "bin", "cc"), spoilt} {
		if err := os.WriteFile(name, []byte("poison"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again, err := open(t, dir).Root(t.Context(), second)
	if err != nil || again.Dir != root.Dir || h.asked() != 1+1 {
		t.Errorf("again: %+v, %v", again, err)
	}
	if raw, err := os.ReadFile(filepath.Join(again.Dir, "bin", "cc")); err != nil || string(raw) != "compiler" {
		t.Errorf("again: %q, %v", raw, err)
	}
	empty(t, dir)
	// An image that shares a layer takes it from here.
	if _, err := s.Root(t.Context(), first); err != nil || h.asked() != 1 {
		t.Errorf("a second image: %v", err)
	}
}

func TestRootRefused(t *testing.T) {
	h, dir := newHub(t), t.TempDir()
	ref := h.push(t, image.Scratch(), "/bin/cc", "compiler")
	s := open(t, dir)
	gone := ref[:strings.Index(ref, "@")+1] + digest.Of(digest.SHA256, nil).String()
	_, err := s.Root(t.Context(), gone)
	refused(t, err, verdict.FetchMissing, "no such image")
	_, err = s.Root(t.Context(), strings.Replace(ref, "@", ":latest@", 1)+"0")
	refused(t, err, verdict.ConfigParse, "")

	h.mu.Lock()
	h.swap = true
	h.mu.Unlock()
	_, err = s.Root(t.Context(), ref)
	unavailable(t, err)
	if names := tree(t, dir); len(names) > 0 {
		t.Errorf("left %q", names)
	}
	h.mu.Lock()
	h.swap = false
	h.mu.Unlock()
	if _, err := s.Root(t.Context(), ref); err != nil {
		t.Errorf("the twin: %v", err)
	}
	h.Close()
	_, err = s.Root(t.Context(), ref)
	unavailable(t, err)
}

// TestLayoutInTheSource: an image may lie in the source, and nowhere else.
func TestLayoutInTheSource(t *testing.T) {
	source, elsewhere := t.TempDir(), t.TempDir()
	built, err := image.Build(t.Context(), image.Spec{
		Base: image.Scratch(), Entrypoint: []string{"/bin/cc"}, Created: time.Unix(1_700_000_000, 0),
		Platforms: []image.Platform{{OS: "linux", Arch: runtime.GOARCH, Files: []image.File{{
			Path: "/bin/cc", Mode: 0o755, Size: 8, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("compiler")), nil },
		}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(source, "tools", "cc"), filepath.Join(elsewhere, "cc")} {
		layout, err := registry.OpenLayout(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := built.Write(t.Context(), layout, "cc"); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(elsewhere, "cc"), filepath.Join(source, "out")); err != nil {
		t.Fatal(err)
	}
	pin := "@" + built.Descriptor.Digest.String()
	s := open(t, t.TempDir())
	_, err = s.Root(t.Context(), "oci:tools/cc"+pin)
	refused(t, err, verdict.ConfigParse, "a directory of the source")
	s.Source = func(context.Context) (string, error) { return source, nil }
	root, err := s.Root(t.Context(), "oci:tools/cc"+pin)
	if err != nil || !slices.Equal(tree(t, root.Dir), []string{"bin/cc"}) {
		t.Errorf("the twin: %+v, %v", root, err)
	}
	for _, dir := range []string{"out", "../" + filepath.Base(elsewhere) + "/cc", filepath.Join(elsewhere, "cc"), "tools"} {
		if _, err := s.Root(t.Context(), "oci:"+dir+pin); err == nil {
			t.Errorf("%q was read", dir)
		}
	}
	_, err = s.Root(t.Context(), "oci:tools/cc@"+digest.Of(digest.SHA256, nil).String())
	refused(t, err, verdict.Missing, "the layout or archive lacks it")
}
