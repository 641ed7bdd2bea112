package stories

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/waybill-release/waybill/test/scene"
)

// boxed is a release.yaml whose steps take what others made and what the
// network has.
const boxed = `apiVersion: waybill/v1
kind: Release
name: box
source: {repository: "https://example.test/box"}
lock: release.lock.yaml
downloads: {firmware.bin: "FROM/firmware.bin"}
defaults: {step: {tools: [sh], limits: {disk: 1Gi}}}
steps:
- name: compile
  run: [sh, -c, "echo kernel > {out}/kernel"]
  outputs: [{class: binary, name: kernel}]
- name: layout
  run: [sh, -c, "cat {in}/kernel {in}/firmware.bin > {out}/box.tar"]
  take: [kernel, firmware.bin]
  outputs: [{class: archive, name: box.tar}]
- name: image
  image: {import: box.tar, platforms: [linux/amd64, linux/arm64]}
  outputs: [{class: image, name: box}]
provenance: [v1, v0.2]
places: {files: "https://dl.example.test/box/{version}/", images: registry.example.test/box}
`

// TestDownloadStory: what steps need of the network is named, pinned, and
// looked at again; a change of it is a diff, and never silent.
func TestDownloadStory(t *testing.T) {
	s := open(t)
	var text atomic.Value
	text.Store("firmware")
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/firmware.bin" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, text.Load().(string))
	}))
	defer srv.Close()
	if err := os.Mkdir(s.Path("box"), 0o755); err != nil {
		t.Fatal(err)
	}
	config, path := s.Path("box", "release.yaml"), s.Path("box", "release.lock.yaml")
	if err := os.WriteFile(config, []byte(strings.Replace(boxed, "FROM", srv.URL, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	plan := func(flags ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"waybill", "plan", "v0.2.0", "--dir", "box"}, flags...)...)
	}
	lock := func(flags ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"waybill", "lock", "--dir", "box"}, flags...)...)
	}
	want(t, plan(), 1, "LOCK_STALE", "the source does not have it")
	want(t, lock(), 0, "+ download firmware.bin "+srv.URL+"/firmware.bin 8 bytes sha256:", "+ tool sh", "nothing was written")
	want(t, lock("--confirm"), 0, "wrote release.lock.yaml")
	want(t, plan(), 0, "fetch   firmware.bin "+srv.URL, "image for 2 platforms from box.tar", "provenance/v0.2/layout.sigstore.json", "3 provenance-v0.2")
	want(t, plan("--output", "json"), 0, `"take": [`, `"downloads": [`, `"import": "box.tar"`, `"disk": 1073741824`, "cat ../in/kernel ../in/firmware.bin > ../out/box.tar")
	want(t, lock(), 0, "is up to date")

	// The file changes where it lies: the plan is as it was, the lock shows it.
	text.Store("firmware, mended")
	want(t, plan(), 0)
	want(t, lock(), 0, "- download firmware.bin", "+ download firmware.bin", "16 bytes", "nothing was written")
	held, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(held), "size: 8,") {
		t.Fatalf("the lock is %s, %v", held, err)
	}

	// The address changes: nothing is planned until it is locked.
	edit(t, config, "/firmware.bin\"", "/software.bin\"")
	want(t, plan(), 1, "LOCK_STALE", "/firmware.bin", "release.yaml says", "/software.bin")
	want(t, lock("--confirm"), 2, "no such file (404 Not Found)")
	edit(t, config, "/software.bin\"", "/firmware.bin\"")
	want(t, lock("--confirm"), 0, "wrote")
	want(t, plan(), 0)

	// What is wrong is told where it stands.
	edit(t, config, "[kernel, firmware.bin]", "[kernel, firmware]")
	want(t, plan(), 2, `14:18: steps[1].take[1]: takes "firmware", which no earlier step makes`)
	edit(t, config, "[kernel, firmware]", "[kernel, firmware.bin]")
	edit(t, config, "firmware.bin: \"http://127", "firmware.bin: \"http://dl.example.test/127")
	want(t, plan(), 2, "6:27: downloads.firmware.bin:", "want https")
	edit(t, config, "firmware.bin: \"http://dl.example.test/127", "firmware.bin: \"http://127")

	// A step runs in one file system.
	edit(t, config, "tools: [sh]", "tools: [sh, cross]")
	image := s.Lab.Registry + "/base/static@sha256:" + strings.Repeat("0", 64)
	want(t, lock("--tool", "cross="+image), 0, "+ tool cross")
	want(t, lock("--tool", "cross="+image, "--tool", "sh="+image, "--confirm"), 2, `step "compile": tools "sh" and "cross" are both pinned as images`)
	edit(t, config, "tools: [sh, cross]", "tools: [sh]")

	srv.Close()
	want(t, lock("--confirm"), 3, "UNAVAILABLE", "pinning download \"firmware.bin\"")
	if again, err := os.ReadFile(path); err != nil || !strings.Contains(string(again), "size: 16,") {
		t.Errorf("a lock that was not found was written: %s, %v", again, err)
	}
}

// TestInitWithModules: a project that needs others gets them fetched, and its
// plan says so.
func TestInitWithModules(t *testing.T) {
	s := open(t)
	for name, body := range map[string]string{
		"go.mod": "module example.test/acme/fresh\n\ngo 1.26\n", "main.go": "package main\n\nfunc main() {}\n",
		"go.sum": "example.test/dep v1.0.0 h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n",
	} {
		path := s.Path("fresh", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) scene.Result { return s.Run(t.Context(), append([]string{"waybill"}, args...)...) }
	want(t, run("init", "--dir", "fresh"), 0, "\nmodules: [.]")
	want(t, run("init", "--dir", "fresh", "--confirm"), 0, "+ module . example.test/dep v1.0.0")
	want(t, run("plan", "v1.0.0", "--dir", "fresh"), 0, "fetch   modules of .")
}

// taken is a release.yaml whose last step shows everything that it sees.
const taken = `apiVersion: waybill/v1
kind: Release
name: lantern
source: {repository: "https://example.test/lantern"}
lock: release.lock.yaml
downloads: {firmware.bin: "FROM/firmware.bin", box.tar: "FROM/box.tar"}
defaults: {step: {tools: [sh], network: none}}
lists: {server: [linux/amd64, linux/arm64]}
steps:
- name: compile
  each: {platform: server}
  run: [sh, -c, "mkdir -p {out}/bin/{arch}; echo '#!/bin/sh' > {out}/bin/{arch}/lantern; echo secret > {out}/bin/{arch}/unseen"]
  outputs: [{class: binary, name: "bin/{arch}/lantern"}, {class: file, name: "bin/{arch}/unseen"}]
- name: show
  each: {platform: server}
  run: [sh, -c, "cd {in}; for f in * */* */*/*; do if [ -f $f ]; then read line < $f; echo $f $line; fi; done > $TO"]
  env: {TO: "{out}/seen-{arch}.txt"}
  take: [lantern, firmware.bin]
  outputs: [{class: file, name: "seen-{arch}.txt"}]
- name: image
  image: {import: box.tar, platforms: server}
  outputs: [{class: image, name: box}]
provenance: [v1, v0.2]
places: {files: "https://dl.example.test/lantern/{version}/", images: registry.example.test/lantern}
`

// layoutTar is an OCI layout of one image for two platforms, as an archive, and
// the digest of its index.
func layoutTar(t *testing.T) ([]byte, string) {
	t.Helper()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range []string{"amd64", "arm64"} {
		layer, err := random.Layer(64, types.OCILayer)
		if err != nil {
			t.Fatal(err)
		}
		image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
		if image, err = mutate.ConfigFile(image, &v1.ConfigFile{OS: "linux", Architecture: arch}); err != nil {
			t.Fatal(err)
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			t.Fatal(err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	dir := t.TempDir()
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := to.AppendIndex(index); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close()); err != nil {
		t.Fatal(err)
	}
	sum, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), sum.Hex
}

// TestStepsSeeWhatTheyTake: no more and no less, as it was made, and the
// provenance says what it was.
func TestStepsSeeWhatTheyTake(t *testing.T) {
	s := open(t)
	var text atomic.Value
	text.Store("firmware\n")
	box, sum := layoutTar(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/box.tar" {
			_, _ = w.Write(box)
			return
		}
		_, _ = io.WriteString(w, text.Load().(string))
	}))
	defer srv.Close()
	config := strings.ReplaceAll(taken, "FROM", srv.URL)
	if err := os.WriteFile(s.Path("lantern", "release.yaml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	want(t, s.Run(t.Context(), "waybill", "lock", "--dir", "lantern", "--confirm"), 0, "+ download firmware.bin", "- base static")
	tag(t, s, scene.Version)
	text.Store("software\n")
	want(t, s.Stage(t.Context()), 1, "FETCH_HASH", "firmware.bin")
	text.Store("firmware\n")
	want(t, s.Stage(t.Context()), 0)
	for _, arch := range []string{"amd64", "arm64"} {
		body, err := os.ReadFile(s.Path("state", "files", "seen-"+arch+".txt"))
		if seen := "firmware.bin firmware\nbin/" + arch + "/lantern #!/bin/sh\n"; err != nil || string(body) != seen {
			t.Errorf("for %s it saw %q, %v; want %q", arch, body, err, seen)
		}
	}
	want(t, s.Run(t.Context(), "waybill", "inspect", "state/files/provenance/image.sigstore.json"), 0, "download box.tar", "oci/box/linux/arm64", sum)
	want(t, s.Run(t.Context(), "waybill", "inspect", "state/files/provenance/show-linux-arm64.sigstore.json"), 0,
		"download firmware.bin", "bin/arm64/lantern")
	want(t, s.Run(t.Context(), "waybill", "inspect", "state/files/provenance/v0.2/show-linux-arm64.sigstore.json"), 0,
		"https://slsa.dev/provenance/v0.2", "bin/arm64/lantern")
	want(t, s.Release(t.Context()), 0)
	want(t, s.Verify(t.Context()), 0, "nothing extra")
}
