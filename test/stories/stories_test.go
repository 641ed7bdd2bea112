// Package stories runs the built commands against a lab, as users run them.
package stories

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	sources "github.com/waybill-release/waybill/pkg/produce/checkout"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/test/scene"
)

// bin holds the commands, built from the root module.
var bin string

// small is the example for two platforms instead of four: for stories that need
// programs that Go compiled.
var small string

// shell is a project whose steps are shell commands. Most stories are not about
// compiling, which would take nearly all of their time.
var shell = filepath.Join("..", "scene", "shell")

func TestMain(m *testing.M) {
	if code, ok := sources.Serve(); ok { // the steps of releases that are built here
		os.Exit(code)
	}
	if os.Getenv(inside) != "" {
		fmt.Fprintln(os.Stderr, demoInside(os.Args[1:])) // returns only if it failed
		os.Exit(1)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "waybill-stories-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", dir+"/", "./cmd/...")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	races := filepath.Join(dir, "race")
	if os.Getenv("WAYBILL_RACE") != "" { // make race-stories
		build.Args = slices.Insert(build.Args, 2, "-race")
		build.Env = append(build.Env, "CGO_ENABLED=1")
		if err := os.Setenv("GORACE", "atexit_sleep_ms=0 log_path="+races); err != nil { // of each command, with its process number
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the commands: %v\n%s", err, out)
		return 1
	}
	bin, small = dir, filepath.Join(dir, "example")
	if err := makeSmall(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	found, _ := filepath.Glob(races + ".*")
	for _, path := range found {
		report, err := os.ReadFile(path)
		fmt.Fprintf(os.Stderr, "%s\n", cmp.Or(string(report), fmt.Sprint(err)))
		code = 1
	}
	return code
}

func makeSmall() error {
	if err := os.CopyFS(small, os.DirFS(example)); err != nil {
		return err
	}
	const all, some = "every: [linux/amd64, linux/arm64, darwin/arm64, windows/amd64]", "every: [linux/amd64, linux/arm64]"
	config := filepath.Join(small, plan.ConfigName)
	raw, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	if !strings.Contains(string(raw), all) {
		return errors.New("the example is not for four platforms")
	}
	return os.WriteFile(config, []byte(strings.Replace(string(raw), all, some, 1)), 0o600)
}

// example is the project that the README shows.
var example = filepath.Join("..", "example")

// published is a scene with a release that has gone the whole way.
func published(t *testing.T) *scene.Scene {
	t.Helper()
	return publish(t, open(t))
}

func publish(t *testing.T, s *scene.Scene) *scene.Scene {
	t.Helper()
	want(t, s.Stage(t.Context()), 0)
	want(t, s.Release(t.Context()), 0)
	return s
}

func open(t *testing.T) *scene.Scene {
	t.Helper()
	return openExample(t, shell)
}

func openExample(t *testing.T, dir string) *scene.Scene {
	t.Helper()
	s, err := scene.Open(context.Background(), scene.Options{Verbose: true, Bin: bin, Dir: t.TempDir(), Example: dir})
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

// refusedBy expects a refusal by exactly these codes, each once.
func refusedBy(t *testing.T, r scene.Result, codes ...string) {
	t.Helper()
	want(t, r, 1)
	var got []string
	for _, line := range refusal.FindAllStringSubmatch(r.Stdout, -1) {
		got = append(got, line[1])
	}
	slices.Sort(got)
	slices.Sort(codes)
	if !slices.Equal(got, codes) {
		t.Errorf("%s\nis refused by %q, want %q:\n%s", r, got, codes, r.Stdout)
	}
}

// refusal is the first line of a finding in a table.
var refusal = regexp.MustCompile(`(?m)^  ([A-Z][A-Z0-9_]+) +\S.*\n {21}`)

// answer is what the stories read of a JSON verdict.
type answer struct {
	Schema   string
	Outcome  string
	Headline string
	Counts   struct{ Verified, Required, Missing, Extra int }
	Findings []struct{ Code, Subject, Fix string }
	Proofs   []struct{ Subject, Statement, Role, Identity string }
}

func parse(t *testing.T, r scene.Result) answer {
	t.Helper()
	var a answer
	if err := json.Unmarshal([]byte(r.Stdout), &a); err != nil {
		t.Fatalf("%s: not JSON: %v\n%s", r, err, r.Stdout)
	}
	return a
}

func TestOneReleaseGoesThroughAndAttacksAreRefused(t *testing.T) {
	s := publish(t, openExample(t, example))
	t.Run("complete", func(t *testing.T) { complete(t, s) })
	t.Run("README", func(t *testing.T) { transcript(t, s, "README.md") })
	t.Run("single artifacts", func(t *testing.T) { singles(t, s) })
	t.Run("levels", func(t *testing.T) { levels(t, s) })
	t.Run("inspected", func(t *testing.T) { inspected(t, s) })
	t.Run("status", func(t *testing.T) {
		r := s.Run(t.Context(), "waybill", "status", scene.Version, "--profile", "profile.yaml", "--state", "state")
		want(t, r, 0, "public: yes", "k8s-verify-release "+scene.Version)
	})
	t.Run("a clock before the signatures", func(t *testing.T) {
		want(t, s.Verify(t.Context(), "--now", "2020-01-01T00:00:00Z"), 3, "CLOCK")
		want(t, s.Verify(t.Context(), "--now", "2126-01-01T00:00:00Z"), 0)
	})
	t.Run("digests", func(t *testing.T) {
		want(t, s.Verify(t.Context(), "--digests", "all"), 0, "nothing extra")
		want(t, s.Verify(t.Context(), "--digests", "md5"), 2, "want all or sha256")
	})
	t.Run("another version", func(t *testing.T) {
		r := s.Run(t.Context(), "k8s-verify-release", "v0.2.0", "--profile", "profile.yaml")
		want(t, r, 1, "EVIDENCE_MISSING")
	})
	for _, a := range scene.Attacks() {
		t.Run(a.Name, func(t *testing.T) { refusedThenAccepted(t, s, a) })
	}
	t.Run("a second run changes nothing", func(t *testing.T) { again(t, s) })
	t.Run("unreachable", func(t *testing.T) { unreachable(t, s) })
}

func complete(t *testing.T, s *scene.Scene) {
	r := s.Verify(t.Context(), "--output", "json", "--output", "table=verdict.txt")
	want(t, r, 0)
	a := parse(t, r)
	if a.Outcome != "accepted" || !strings.HasSuffix(a.Headline, " verified, nothing extra") || a.Counts.Verified != a.Counts.Required || a.Counts.Verified < 30 {
		t.Errorf("verdict %+v", a.Counts)
	}
	statements := map[string]int{}
	for _, p := range a.Proofs {
		statements[p.Role+" "+p.Statement]++
	}
	for kind, n := range map[string]int{
		"builder https://slsa.dev/provenance/v1":      11, // 4 binaries, 4 archives, the image and its 2 platforms
		"release blob":                                10, // 4 binaries, 4 archives, 2 files of sums
		"release https://sigstore.dev/cosign/sign/v1": 3,
	} {
		if statements[kind] != n {
			t.Errorf("%d proofs of %q, want %d (all: %v)", statements[kind], kind, n, statements)
		}
	}
	page, err := os.ReadFile(s.Path("verdict.txt"))
	if err != nil || !strings.Contains(string(page), "nothing extra") {
		t.Errorf("verdict file: %v\n%s", err, page)
	}
}

// refusedThenAccepted proves that the attack is refused for its own reason,
// and that nothing else was wrong: taken back, the same command accepts.
func refusedThenAccepted(t *testing.T, s *scene.Scene, a scene.Attack) {
	want(t, a.Check(t.Context(), s), 0)
	undo, err := a.Do(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	r := a.Check(t.Context(), s)
	if err := undo(); err != nil {
		t.Fatal(err)
	}
	want(t, r, 1, append([]string{"→"}, a.Codes...)...)
	want(t, a.Check(t.Context(), s), 0)
}

func again(t *testing.T, s *scene.Scene) {
	before := want256(t, s)
	r := s.Stage(t.Context())
	want(t, r, 0, "is done already", "signed 0 files and 0 image manifests", "sealed already")
	want(t, s.Release(t.Context()), 0, "nothing extra")
	if after := want256(t, s); after != before {
		t.Errorf("the manifest changed: %s, was %s", after, before)
	}
}

// want256 is the published list of digests.
func want256(t *testing.T, s *scene.Scene) string {
	t.Helper()
	body, err := os.ReadFile(s.Path("state", "files", "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func unreachable(t *testing.T, s *scene.Scene) {
	for _, service := range []string{"registry", "bucket"} {
		if err := s.Lab.Stop(service); err != nil {
			t.Fatal(err)
		}
		want(t, s.Verify(t.Context()), 3, "UNAVAILABLE", "nothing was decided")
	}
	r := s.Run(t.Context(), "waybill", "status", scene.Version, "--profile", "profile.yaml", "--state", "state")
	want(t, r, 3, "public: unknown", "when the place answers", "waybill status "+scene.Version)
}
