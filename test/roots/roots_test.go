// Package roots lets the built command take its trust from repositories that
// are honest, broken or hostile.
package roots

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/testing/faketuf"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// waybill is the command, built from the root module.
var waybill string

// now is the time of judgement of the tests, except those with a lab.
var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "waybill-roots-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // one test runs it as nobody
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", dir+"/", "./cmd/waybill")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the command: %v\n%s", err, out)
		return 1
	}
	waybill = filepath.Join(dir, "waybill")
	if err := os.Setenv("WAYBILL_PATIENCE", "3s"); err != nil { // repositories that fail do so for ever here
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// A client is somebody with a cache, a working directory and a clock.
type client struct {
	t          *testing.T
	cache, dir string
	now        time.Time
	as         func(*exec.Cmd) // changes how the command runs; may be nil
}

func newClient(t *testing.T, at time.Time) *client {
	t.Helper()
	dir := t.TempDir()
	return &client{t: t, cache: filepath.Join(dir, "cache"), dir: dir, now: at}
}

// trust runs waybill trust with the client's cache and clock.
func (c *client) trust(args ...string) (code int, stdout, stderr string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), waybill, append([]string{"trust"}, args...)...)
	cmd.Args = append(cmd.Args, "--cache", c.cache, "--now", c.now.Format(time.RFC3339))
	cmd.Dir = c.dir
	var out, conversation bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &conversation
	if c.as != nil {
		c.as(cmd)
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), conversation.String()
}

// must demands success, and returns what was printed.
func (c *client) must(args ...string) string {
	c.t.Helper()
	code, stdout, stderr := c.trust(args...)
	if code != 0 {
		c.t.Fatalf("trust %s ended with %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// refuses demands one code, its exit status, and no answer.
func (c *client) refuses(want verdict.Code, args ...string) {
	c.t.Helper()
	code, stdout, stderr := c.trust(args...)
	if code != verdict.ExitCode(want.Outcome()) || !strings.Contains(stderr, want.Outcome().String()+": "+string(want)+" ") {
		c.t.Fatalf("trust %s ended with %d, want %s\n%s%s", strings.Join(args, " "), code, want, stdout, stderr)
	}
	if stdout != "" {
		c.t.Errorf("a refusal has an answer: %s", stdout)
	}
	next := want.Fix()
	if want == verdict.Usage {
		next = "see waybill trust "
	}
	if want == verdict.TrustDown && strings.Contains(stderr, "permission denied") { // the disk is the cause, not the repository
		next = "check that the path exists, that this user may read and write it"
	}
	if !strings.Contains(stderr, "→ "+next) {
		c.t.Errorf("a refusal without the next act: %s", stderr)
	}
}

func (c *client) file(name string, raw []byte) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// initialise takes trust from r.
func (c *client) initialise(r *faketuf.Repository) string {
	c.t.Helper()
	return c.must("init", "--tuf", r.URL, "--root", c.file("1.root.json", r.File("1.root.json")))
}
