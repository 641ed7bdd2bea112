// Package interop is the outside proof: what Waybill releases is verified with
// tools that others wrote, cosign 2 and 3 and the sigstore-go library, and
// what cosign signs is verified with Waybill.
//
// One release is made in a lab. Every question about it is asked of every
// tool, and each accepted answer has twins, the same question with one fact
// changed, that must be refused for their own reason. What a tool cannot do is
// asserted too, so that it is noticed when it can.
//
//	make interop
package interop

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
	"github.com/waybill-release/waybill/test/scene"
)

// world is one published release, and those who are asked about it.
type world struct {
	*scene.Scene

	dir     string // the released files, fetched as anybody can
	cosign2 cosign
	cosign3 cosign
	library library
	images  images
}

func TestInterop(t *testing.T) {
	bin := peers(t)
	w := &world{Scene: published(t), dir: t.TempDir()}
	w.cosign2 = openCosign(t, w.Scene, filepath.Join(bin, "cosign2"))
	w.cosign3 = openCosign(t, w.Scene, filepath.Join(bin, "cosign3"))
	// Version 2 reads and writes bundles when it is told to, 3 always does.
	w.cosign2.bundles, w.cosign2.offline = []string{"--new-bundle-format"}, []string{"--offline"}
	w.library = openLibrary(t, w.Scene)
	w.fetch(t)
	w.images = hang(t, w.Scene)

	t.Run("they verify ours", func(t *testing.T) { theyVerifyOurs(t, w) })
	t.Run("we verify theirs", func(t *testing.T) { weVerifyTheirs(t, w) })
	t.Run("limits", func(t *testing.T) { limits(t, w) })
}

// peers is the directory of the tools that others wrote. Without them there is
// nothing to prove: a developer may skip that, a machine that decides may not.
func peers(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("WAYBILL_PEERS")
	if dir == "" {
		dir = filepath.Join("..", "bin")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cosign2", "cosign3"} {
		_, err := os.Stat(filepath.Join(dir, name))
		switch {
		case err == nil:
		case os.Getenv("CI") != "" || os.Getenv("WAYBILL_REQUIRE_PEERS") == "1":
			t.Fatalf("no %s, and it is required here: `make interop` builds it (%v)", name, err)
		default:
			t.Skipf("no %s: `make interop` builds it and runs this test", name)
		}
	}
	return dir
}

// published is a scene with a release that has gone the whole way.
func published(t *testing.T) *scene.Scene {
	t.Helper()
	s := setScene(t)
	for _, r := range []scene.Result{s.Stage(t.Context()), s.Release(t.Context())} {
		if r.Code != 0 {
			t.Fatalf("%s\nended with status %d\n%s%s", r, r.Code, r.Stdout, r.Stderr)
		}
	}
	return s
}

// setScene is a scene in which nothing has been released yet.
func setScene(t *testing.T) *scene.Scene {
	t.Helper()
	s, err := scene.Open(context.Background(), scene.Options{Verbose: true, Bin: commands(t), Dir: t.TempDir(), Example: filepath.Join("..", "example")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// commands is a directory with the commands.
func commands(t *testing.T) string {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// at is where the commands are built; made by TestMain.
var at string

// built has the commands built from the root module, once.
var built = sync.OnceValues(func() (string, error) {
	dir := at
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", dir+"/", "./cmd/...")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("building the commands: %w\n%s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if at, err = os.MkdirTemp("", "waybill-interop-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(at)
	return m.Run()
}

// The released files that are asked about.
const (
	binary      = "bin/linux/amd64/lantern"
	otherBinary = "bin/linux/arm64/lantern"
	archive     = "lantern-linux-amd64.tar.gz"
	sums        = "SHA256SUMS"
	sbom        = "lantern-linux-amd64.tar.gz.spdx.json"

	bundleSuffix  = ".sigstore.json"
	compiled      = "provenance/compile-linux-amd64.sigstore.json"
	packed        = "provenance/pack-linux-amd64.sigstore.json"
	manifest      = "release.manifest.sigstore.json"
	flippedSuffix = ".flipped"
)

// fetch downloads the released files, and keeps beside each a copy with one
// bit changed: in the signature of a bundle, in the middle of anything else.
func (w *world) fetch(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		binary, binary + bundleSuffix, otherBinary, archive, archive + bundleSuffix, sums, sums + bundleSuffix, sbom, compiled, packed, manifest, sbomlist.Name,
	} {
		body := download(t, fmt.Sprintf("%s/release/lantern/%s/%s", w.Lab.Bucket, scene.Version, name))
		w.write(t, name, body)
		if filepath.Ext(name) == ".json" && name != sbom {
			w.write(t, name+flippedSuffix, flipSignature(t, body))
		} else {
			w.write(t, name+flippedSuffix, flip(body, len(body)/2))
		}
	}
}

// file is a released file, as it was fetched.
func (w *world) file(name string) string { return filepath.Join(w.dir, filepath.FromSlash(name)) }

func (w *world) write(t *testing.T, name string, body []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(w.file(name)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.file(name), body, 0o644); err != nil {
		t.Fatal(err)
	}
}

func download(t *testing.T, url string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v", url, response.Status, err)
	}
	return body
}
