package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/test/lab"
)

// TestMain lets the test binary be waybill-lab.
func TestMain(m *testing.M) {
	if os.Getenv("BE_WAYBILL_LAB") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), "BE_WAYBILL_LAB=1", "TMPDIR="+t.TempDir())
	return cmd
}

// run runs waybill-lab to its end.
func run(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	cmd := command(t, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

func TestLife(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lab")
	up := command(t, "up", "--dir", dir)
	var page bytes.Buffer
	up.Stdout, up.Stderr = &page, os.Stderr
	began := time.Now()
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	for tick := time.Tick(time.Millisecond); ; <-tick {
		if _, err := lab.ReadPage(dir); err == nil {
			break
		}
		if time.Since(began) > 10*time.Second {
			t.Fatal("not up after ten seconds")
		}
	}
	t.Logf("up in %v", time.Since(began))

	if code, _, errOut := run(t, "up", "--dir", dir); code != exitUsage || !strings.Contains(errOut, "already running") {
		t.Errorf("a second lab there: %d %s", code, errOut)
	}
	file := filepath.Join(t.TempDir(), "token")
	if code, _, errOut := run(t, "token", "--dir", dir, "--as", "release", "--out", file); code != 0 {
		t.Fatalf("token: %d %s", code, errOut)
	}
	if b, err := os.ReadFile(file); err != nil || bytes.Count(b, []byte(".")) != 2 || bytes.ContainsAny(b, " \n") {
		t.Errorf("token file: %q, %v", b, err)
	}
	claims := `{"aud":"x","exp":4102444800,"run_id":"17"}`
	code, out, _ := run(t, "token", "--dir", dir, "--as", "someone@example.invalid", "--issuer-claims", claims)
	if said := payload(t, out); code != 0 || !strings.Contains(said, `"exp":4102444800`) || !strings.Contains(said, `"run_id":"17"`) {
		t.Errorf("a token for anybody: %d %q", code, said)
	}
	if code, _, errOut := run(t, "down", "--dir", dir); code != 0 {
		t.Errorf("down: %d %s", code, errOut)
	}
	if err := up.Wait(); err != nil {
		t.Errorf("up ended with %v", err)
	}
	if !strings.Contains(page.String(), "trusted_root.json") || !strings.Contains(page.String(), lab.Mark) {
		t.Errorf("page:\n%s", &page)
	}
	if code, _, errOut := run(t, "down", "--dir", dir); code != exitUsage || !strings.Contains(errOut, "no lab is running") {
		t.Errorf("down again: %d %s", code, errOut)
	}
	if code, _, errOut := run(t, "token", "--dir", dir); code != exitUsage || !strings.Contains(errOut, "no lab is running") {
		t.Errorf("token after down: %d %s", code, errOut)
	}
}

// TestTemporary stops a lab that was given no directory.
func TestTemporary(t *testing.T) {
	up := command(t, "up")
	tmp := t.TempDir()
	up.Env = append(up.Env, "TMPDIR="+tmp)
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var dirs []string
	for tick := time.Tick(time.Millisecond); ; <-tick {
		dirs, _ = filepath.Glob(filepath.Join(tmp, "waybill-lab-*", lab.PageFile))
		if len(dirs) == 1 {
			break
		}
		if time.Since(began) > 10*time.Second {
			t.Fatal("not up after ten seconds")
		}
	}
	if code, _, errOut := run(t, "down", "--dir", filepath.Dir(dirs[0])); code != 0 {
		t.Errorf("down: %d %s", code, errOut)
	}
	if err := up.Wait(); err != nil { // it cleans up as the last thing that it does
		t.Errorf("up ended with %v", err)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestWrongUse(t *testing.T) {
	cases := []struct{ args, says string }{
		{"up --address 0.0.0.0", "loopback only"},
		{"up --address example.invalid", "loopback only"},
		{"up now", `unexpected argument "now"`},
		{"up --port 80", "unknown flag"},
		{"up --sealed", "--kubernetes"},
		{"up --kubernetes 31", "--kubernetes"},
		{"sideways", `unexpected argument "sideways"`},
		{"token --as nobody", "no role"},
		{"token --issuer-claims {", "--issuer-claims"},
		{"down --dir /nonexistent", "no lab is running"},
		{"drill --bin /nonexistent", "make build"},
		{"drill --output xml", "want table or json"},
	}
	for _, c := range cases {
		if code, out, errOut := run(t, strings.Fields(c.args)...); code != exitUsage || !strings.Contains(errOut, c.says) || out != "" {
			t.Errorf("%s: %d %q %q", c.args, code, out, errOut)
		}
	}
}

// TestHelpIsOurs keeps out flags that upstream packages add to every program.
func TestHelpIsOurs(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"up", "--help"}, {"token", "--help"}, {"down", "--help"}, {"drill", "--help"}} {
		code, out, _ := run(t, args...)
		if code != 0 || strings.Contains(out, "tls-") || !strings.Contains(out, "Exit status") {
			t.Errorf("%v: %d\n%s", args, code, out)
		}
	}
	_, out, _ := run(t, "up", "--help")
	for _, word := range []string{"Real server code", "Ours:", "INSECURE LAB"} {
		if !strings.Contains(out, word) {
			t.Errorf("up --help does not say %q", word)
		}
	}
}

// payload is what a token says.
func payload(t *testing.T, token string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("no token: %q", token)
	}
	said, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	return string(said)
}
