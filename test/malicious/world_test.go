// Package malicious runs build steps that mean harm, through the product's own
// build, and demands of each row what happened: what it tried, that it was
// stopped, what the verdict says of it, and that nothing was signed for or
// released. The twins run the same step without walls, and must show exactly
// what the builder of that mode does not guarantee.
package malicious

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/produce/checkout"
	"github.com/waybill-release/waybill/pkg/produce/run"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/scene"
)

func TestMain(m *testing.M) {
	if code, ok := checkout.Serve(); ok { // the steps of its builds run here
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// world is one lab for all rows, and the mode with walls that there is here.
type world struct {
	*scene.Scene
	profile  profile.Profile
	verifier *verify.Verifier
	version  version.Version
	report   sandbox.Report
	step     string // the program that means harm
}

// walls is the best mode of this machine. Without any the rows could only say
// that nothing was tried, so CI refuses.
func (w *world) walls(t *testing.T) sandbox.Mode {
	t.Helper()
	mode := w.report.Mode
	if mode == sandbox.Isolated || mode == sandbox.Contained && os.Geteuid() != 0 {
		return mode
	}
	if os.Getenv("CI") != "" || os.Getenv("WAYBILL_REQUIRE_ISOLATION") != "" {
		t.Fatal(w.report.Reason())
	}
	t.Skip(w.report.Reason())
	return ""
}

func openWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	step := filepath.Join(dir, "step")
	compile := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", step, "./step")
	compile.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("building the step: %v\n%s", err, out)
	}
	s := must(scene.Open(t.Context(), scene.Options{Verbose: true, Dir: filepath.Join(dir, "scene"), Example: filepath.Join("testdata", "project")}))(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{Scene: s, step: step, report: sandbox.Examine(t.Context())}
	w.profile = must(profile.Load(s.Path("profile.yaml"), profile.Reader{Now: time.Now()}))(t)
	w.verifier = must(verify.New(w.profile.TrustRoot))(t)
	w.version = must(version.Parse(scene.Version))(t)
	return w
}

// release is one build of one row.
type release struct {
	mode   sandbox.Mode
	state  string // its workspace
	token  string // the file with the builder's token
	cache  string // a directory of the account that builds
	source string
	then   func(*testing.T, *release) // what happens when the commit is known, before a step runs
}

// prepare makes the repository of a row: the project, the step, and the row's
// own lines in release.yaml.
func (w *world) prepare(t *testing.T, mode sandbox.Mode, r row) *release {
	t.Helper()
	dir := t.TempDir()
	b := &release{mode: mode, state: filepath.Join(dir, "state"), token: filepath.Join(dir, "token"), cache: filepath.Join(dir, "cache"), source: filepath.Join(dir, "source")}
	for _, d := range []string{b.cache, b.source} {
		noErr(t, os.Mkdir(d, 0o755))
	}
	role := lab.RoleBuilder
	if mode != sandbox.Isolated {
		role = lab.RoleBuilderUnisolated
	}
	noErr(t, os.WriteFile(b.token, []byte(w.Lab.Token(role)), 0o600))
	for _, name := range []string{"LICENSE", "release.yaml"} {
		body := must(os.ReadFile(w.Path("lantern", name)))(t)
		if name == "release.yaml" {
			body = []byte(strings.Replace(string(body), "- name: evil\n  run: [./step]\n  env: {ACT: nothing}\n", w.lines(b, r), 1))
		}
		noErr(t, os.WriteFile(filepath.Join(b.source, name), body, 0o644))
	}
	noErr(t, os.Link(w.step, filepath.Join(b.source, "step")))
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "harm"}, {"tag", w.version.String()}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = b.source
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=Mallory",
			"GIT_AUTHOR_EMAIL=m@evil.example", "GIT_COMMITTER_NAME=Mallory", "GIT_COMMITTER_EMAIL=m@evil.example")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return b
}

// lines are what a row says in release.yaml. The step is told where everything
// is: what stops it is not that it could not find it. A second step stands
// before it, and is done first unless both are to meet.
func (w *world) lines(b *release, r row) string {
	common := fmt.Sprintf("TOKEN: %q, STATE: %q, RECORD: %q, CACHE: %q, SOURCE: %q, PID: %q, FULCIO: %q, REKOR: %q, HOMEFILE: %q, SOCKET: %q, ABSTRACT: %q",
		b.token, b.state, filepath.Join(b.state, "release.json"), b.cache, b.source, strconv.Itoa(os.Getpid()), w.Lab.Fulcio, w.Lab.Rekor,
		w.Path("profile.yaml"), r.socket, r.abstract)
	var s strings.Builder
	s.WriteString(strings.Replace(strings.ReplaceAll(r.second, "COMMON", common), ", }", "}", 1))
	fmt.Fprintf(&s, "- name: evil\n  run: [./step]\n  env: {ACT: %s, ME: evil, OTHER: peer, CPATH: %q, %s}\n", r.act, b.cache, common)
	if len(r.keeps) > 0 {
		s.WriteString("  take: [peer.txt]\n")
	}
	if r.limits != "" {
		fmt.Fprintf(&s, "  limits: %s\n", r.limits)
	}
	if r.network != "" {
		fmt.Fprintf(&s, "  network: %s\n", r.network)
	}
	return s.String() + r.more
}

// build runs the product's build in a mode, as its own pipeline would.
func (w *world) build(t *testing.T, b *release) error {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	planned, source, err := pipeline.ReadPlan(ctx, pipeline.Source{Repository: b.source}, w.version, nil)
	if err != nil {
		return err
	}
	ws := must(workspace.Create(b.state, workspace.Identity{
		Name: planned.Name, Version: planned.Version, Commit: source.Commit, Plan: planned.Digest(), Invocation: "malicious",
	}))(t)
	if b.then != nil {
		b.then(t, b)
	}
	services := must(sign.ParseServices(w.profile.Signing, time.Now()))(t)
	signer := must(sign.New(sign.Config{
		Role: policy.Builder, Policy: w.profile.Policy, Verifier: w.verifier, Services: services, Transport: http.DefaultTransport, Clock: time.Now,
		Token: func(context.Context) (string, error) {
			raw, err := os.ReadFile(b.token)
			return string(raw), err
		},
	}))(t)
	return run.Run(ctx, run.Request{
		Plan: planned, Source: source, Workspace: ws, Signer: signer,
		Machine: run.Machine{Mode: b.mode, Jobs: 2, Transport: http.DefaultTransport},
		Report:  func(context.Context, string, ...any) {}, Trust: run.Trust{Verifier: w.verifier, Policy: w.profile.Policy, Clock: time.Now},
	})
}

// log is what the build kept of the step's log.
func (b *release) log(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(b.state, "logs", "evil.log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(raw)
}

// released lists what lies in the place to be, besides the configuration.
func (b *release) released(t *testing.T) (names []string) {
	t.Helper()
	for _, pattern := range []string{"*", "*/*"} {
		for _, path := range must(filepath.Glob(filepath.Join(b.state, "files", pattern)))(t) {
			info := must(os.Lstat(path))(t)
			name := must(filepath.Rel(filepath.Join(b.state, "files"), path))(t)
			if !info.IsDir() && name != "release.yaml" && name != "release.lock.yaml" {
				names = append(names, name)
			}
		}
	}
	return names
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		noErr(t, err)
		return v
	}
}

func noErr(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
