package stories

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/produce/image"
	"github.com/waybill-release/waybill/test/scene"
)

// project writes a project of a few files.
func project(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, body := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const places = `places:
  files: "https://dl.example.test/lantern/{version}/"
  images: registry.example.test/lantern
`

// savedImage is an image for linux/arm64, and what docker save writes of it.
func savedImage(t *testing.T) (v1.Image, string) {
	t.Helper()
	img, err := random.Image(2048, 2)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "arm64"
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	var saved bytes.Buffer
	if err := tarball.Write(name.MustParseReference("lantern.example.test/lantern:v0.1.0"), img, &saved); err != nil {
		t.Fatal(err)
	}
	return img, saved.String()
}

// TestImportStory: what docker save wrote becomes an image of the release, if
// it is for the platforms that were planned, and for these only.
func TestImportStory(t *testing.T) {
	img, saved := savedImage(t)
	s := openProject(t, project(t, map[string]string{"saved.tar": saved, "release.yaml": `apiVersion: waybill/v1
kind: Release
name: lantern
source: {repository: "https://example.test/lantern"}
steps:
- name: save
  run: [sh, -c, "cp saved.tar {out}/lantern.tar"]
  outputs: [{class: file, name: lantern.tar}]
- name: image
  image: {import: lantern.tar, platforms: [linux/arm64]}
  outputs: [{class: image, name: lantern}]
` + places}))
	want(t, s.Stage(t.Context()), 0, "OK ")
	said := s.predicate(t, "state", "image").BuildDefinition
	if materialOf(said, "lantern.tar").Digest["sha256"] == "" || !said.InternalParameters.Hermetic {
		t.Errorf("what was imported is named %+v", said.ResolvedDependencies)
	}
	hash, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.Path("state", "images", "blobs", "sha256", hash.Hex)); err != nil {
		t.Errorf("the configuration is not the one that was saved: %v", err)
	}

	edit(t, s.Path("lantern", "release.yaml"), "platforms: [linux/arm64]", "platforms: [linux/arm64, linux/amd64]")
	tag(t, s.Scene, scene.Version)
	want(t, s.build(t, "lantern", "more"), 1, "PLATFORM", "linux/amd64")
	edit(t, s.Path("lantern", "release.yaml"), "platforms: [linux/arm64, linux/amd64]", "platforms: [linux/amd64]")
	tag(t, s.Scene, scene.Version)
	want(t, s.build(t, "lantern", "other"), 1, "PLATFORM")
}

// TestToolImageStory: a step runs in the file system of the tool that the lock
// pins, and sees no program of the machine.
func TestToolImageStory(t *testing.T) {
	files := map[string]string{
		"go.mod": "module example.test/press\n\ngo 1.26\n", "main.go": `package main

import ("fmt"; "os")

func main() {
	_, err := os.Stat("/usr/bin/git")
	if os.WriteFile(os.Args[1], fmt.Appendf(nil, "git is here: %t, %s\n", err == nil, os.Getenv("PRESS")), 0o644) != nil {
		os.Exit(1)
	}
}
`}
	dir := project(t, files)
	compile := exec.CommandContext(t.Context(), "go", "build", "-o", "press", ".")
	compile.Dir, compile.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	s := openProject(t, project(t, map[string]string{"release.yaml": `apiVersion: waybill/v1
kind: Release
name: lantern
source: {repository: "https://example.test/lantern"}
lock: release.lock.yaml
steps:
- name: print
  run: [/tools/press, "{out}/page.txt"]
  env: {PRESS: inked}
  tools: [press]
  outputs: [{class: file, name: page.txt}]
places: {files: "https://dl.example.test/lantern/{version}/"}
`}))
	ref := pushTool(t, s, filepath.Join(dir, "press"))
	want(t, s.Run(t.Context(), "waybill", "lock", "--dir", "lantern", "--tool", "press="+ref, "--confirm"), 0)
	tag(t, s.Scene, scene.Version)
	r := s.build(t, "lantern", "state")
	if strings.Contains(r.Stderr, "steps run unisolated") {
		want(t, r, 1, "NOT_ISOLATED") // a root of its own is behind walls or nowhere
		return
	}
	want(t, r, 0)
	page, err := os.ReadFile(s.Path("state", "files", "page.txt"))
	if err != nil || string(page) != "git is here: false, inked\n" {
		t.Errorf("the tool wrote %q, %v", page, err)
	}
	said := s.predicate(t, "state", "print").BuildDefinition
	if tool := materialOf(said, "tool press"); tool.URI != "oci://"+ref || !strings.HasSuffix(ref, tool.Digest["sha256"]) {
		t.Errorf("the tool is named %+v", tool)
	}
	if inside := said.InternalParameters; inside.Walls.Machine || inside.Hermetic != (inside.Isolation == "isolated") {
		t.Errorf("the step says %+v, walls %+v", inside, inside.Walls)
	}
}

// pushTool makes an image of one program, and says where it is.
func pushTool(t *testing.T, s sourced, program string) string {
	t.Helper()
	raw, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	built, err := image.Build(t.Context(), image.Spec{
		Base: image.Scratch(), Entrypoint: []string{"/tools/press"}, Created: time.Unix(1772366400, 0),
		Platforms: []image.Platform{{OS: "linux", Arch: runtime.GOARCH, Files: []image.File{{
			Path: "/tools/press", Mode: 0o755, Size: int64(len(raw)),
			Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil },
		}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	remote, err := registry.OpenRemote(s.Lab.Registry+"/tools", http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	d, err := built.Write(t.Context(), remote, "press")
	if err != nil {
		t.Fatal(err)
	}
	return s.Lab.Registry + "/tools/press@" + d.Digest.String()
}
