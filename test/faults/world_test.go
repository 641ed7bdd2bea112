package faults_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/test/faults"
	"github.com/waybill-release/waybill/test/scene"
)

// staged is a scene with a release that is built, signed and staged. Every row
// takes it from there to a place of its own, so it is made once.
var staged *scene.Scene

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "waybill-faults-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "bin")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin+"/", "./cmd/...")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the commands: %v\n%s", err, out)
		return 1
	}
	staged, err = scene.Open(context.Background(), scene.Options{Verbose: true, Bin: bin, Dir: filepath.Join(dir, "scene"), Example: filepath.Join("..", "example")})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer staged.Close()
	if r := staged.Stage(context.Background()); r.Code != 0 {
		fmt.Fprintf(os.Stderr, "%s\n%s%s", r, r.Stdout, r.Stderr)
		return 1
	}
	// From here on nobody has credentials, and little patience: what fails for
	// ever shall fail soon, and most of a row is waiting.
	err = errors.Join(os.Setenv("DOCKER_CONFIG", filepath.Join(dir, "docker")), os.Setenv("WAYBILL_PATIENCE", "3s"), flag.Set("test.parallel", "8"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// night is one release night: the staged release, and every service behind a
// proxy that can fail.
type night struct {
	t       *testing.T
	profile string
	place   string // where the release goes, a prefix of this night's own
	patient bool   // what fails will pass, so a slow machine must not be given up

	// The source and the destination are the same services behind two doors.
	bucket, registry         *faults.Proxy // where the release goes
	stagedFiles, stagedImage *faults.Proxy // where it comes from
	fulcio, tsa, rekor       *faults.Proxy
}

func newNight(t *testing.T) *night {
	t.Helper()
	l := staged.Lab
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-", " ", "-", ",", "", "'", "", ".", "", ":", "").Replace(t.Name()))
	name += "-" + strings.ToLower(rand.Text()[:8]) // each of several runs has a place that is empty
	n := &night{
		t: t, place: name, profile: name + ".yaml",
		bucket: faults.Before(t, l.Bucket), registry: faults.Before(t, "http://"+l.Registry),
		stagedFiles: faults.Before(t, l.Bucket), stagedImage: faults.Before(t, "http://"+l.Registry),
		fulcio: faults.Before(t, l.Fulcio), tsa: faults.Before(t, strings.TrimSuffix(l.TSA, "/api/v1/timestamp")), rekor: faults.Before(t, l.Rekor),
	}
	signing := strings.NewReplacer(l.Fulcio, n.fulcio.URL, strings.TrimSuffix(l.TSA, "/api/v1/timestamp"), n.tsa.URL, l.Rekor, n.rekor.URL).Replace(string(l.SigningConfig))
	n.write(name+".json", signing)
	n.write(n.profile, fmt.Sprintf(`apiVersion: waybill/v1
kind: Profile
name: lantern
policy: policy.yaml
trustedRoot: trusted_root.json
signingConfig: %s.json
places:
  files:
    canonical: "https://dl.example.test/lantern/{version}/"
    staging: "gs+%s/staging/lantern/{version}/"
    release: "gs+%s/release/%s/{version}/"
  images:
    canonical: registry.example.test/lantern
    staging: "%s/staging/lantern"
    release: "%s/release/%s"
`, name, n.stagedFiles.URL, n.bucket.URL, name, n.stagedImage.Host, n.registry.Host, name))
	return n
}

func (n *night) write(name, text string) {
	n.t.Helper()
	if err := os.WriteFile(staged.Path(name), []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

func (n *night) proxies() []*faults.Proxy {
	return []*faults.Proxy{n.bucket, n.registry, n.stagedFiles, n.stagedImage, n.fulcio, n.tsa, n.rekor}
}

// promote copies the staged release to this night's place.
func (n *night) promote() scene.Result {
	return n.run("waybill", "promote", scene.Version, "--to", "release", "--profile", n.profile, "--state", "state", "--confirm")
}

// run runs a command with the patience that the night has.
func (n *night) run(args ...string) scene.Result {
	if !n.patient {
		return staged.Run(n.t.Context(), args...)
	}
	return runWith(n.t, []string{"WAYBILL_PATIENCE=15s", "XDG_CACHE_HOME=" + staged.Path("cache")}, args...)
}

// verify verifies it there, as a user does.
func (n *night) verify() scene.Result {
	return n.run("k8s-verify-release", scene.Version, "--profile", n.profile)
}

// sign signs what is built in a copy of the state that nobody signed yet.
func (n *night) sign(state string, flags ...string) scene.Result {
	args := []string{"waybill", "sign", scene.Version, "--profile", n.profile, "--state", state, "--identity-token", "release=" + n.token(), "--confirm"}
	return staged.Run(n.t.Context(), append(args, flags...)...)
}

func (n *night) token() string {
	name := n.place + ".token"
	n.write(name, staged.Lab.Token("release"))
	return name
}

// unsigned copies the state directory and takes the release's own signatures
// out of it, and what is remembered of signing; what the builder signed stays.
func (n *night) unsigned() string {
	n.t.Helper()
	state := n.place + "-state"
	if err := os.CopyFS(staged.Path(state), os.DirFS(staged.Path("state"))); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Remove(staged.Path(state, "signatures.jsonl")); err != nil {
		n.t.Fatal(err)
	}
	err := filepath.WalkDir(staged.Path(state, "files"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".sigstore.json") || strings.Contains(path, "/provenance/") {
			return err
		}
		return os.Remove(path)
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return state
}

// runWith runs a command with more in its environment.
func runWith(t *testing.T, env []string, args ...string) scene.Result {
	t.Helper()
	whole := scene.Whole(args)
	cmd := exec.CommandContext(t.Context(), filepath.Join(staged.Bin, args[0]), whole[1:]...)
	cmd.Dir = staged.Dir
	cmd.Env = append(append(os.Environ(), "XDG_CACHE_HOME="+t.TempDir()), env...)
	cmd.WaitDelay = time.Second // for what it leaves behind
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	r := scene.Result{Args: args, Stdout: stdout.String(), Stderr: stderr.String()}
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		r.Code = ended.ExitCode()
	} else if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatal(err)
	}
	return r
}

// want checks how a command ended, and what it said.
func want(t *testing.T, r scene.Result, code int, said ...string) {
	t.Helper()
	if r.Code != code {
		t.Fatalf("%s\nended with status %d, want %d\n%s%s", r, r.Code, code, r.Stdout, r.Stderr)
	}
	for _, s := range said {
		if !strings.Contains(r.Stdout+r.Stderr, s) {
			t.Errorf("%s\ndid not say %q:\n%s%s", r, s, r.Stdout, r.Stderr)
		}
	}
}

// hidden asserts that nothing at the night's place looks like a release: no
// tag, no manifest, and a verifier who says so.
func (n *night) hidden() {
	n.t.Helper()
	for _, p := range n.proxies() {
		p.Heal()
	}
	if r := n.verify(); r.Code != 1 && r.Code != 3 {
		n.t.Fatalf("half a release is taken for one, status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// converges heals the world and runs the same command again.
func (n *night) converges() {
	n.t.Helper()
	for _, p := range n.proxies() {
		p.Heal()
	}
	n.patient = true
	want(n.t, n.promote(), 0)
	want(n.t, n.verify(), 0, "nothing extra")
}
