package stories

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-release/waybill/test/scene"
)

// isolates skips what needs a host that isolates steps, except in CI.
func isolates(t *testing.T, _ page) {
	t.Helper()
	uses(t, "unshare")
	if why := scene.LowerLevel(t.Context(), bin); why != "" {
		if os.Getenv("CI") != "" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
}

// attacked runs doctor --attack-builder in a shell, and returns its status and the
// codes of its rows.
func attacked(t *testing.T, line string, args ...string) (int, examined, string) {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", line + `exec "$0" "$@"`, bin + "/waybill", "doctor", "--output", "json"}, args...)...)
	cmd.Dir = t.TempDir()
	var said strings.Builder
	cmd.Stderr = &said
	if strings.Contains(line, "max_user_namespaces") {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
	}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var e examined
	if len(out) > 0 {
		if err := json.Unmarshal(out, &e); err != nil {
			t.Fatal(err)
		}
	}
	return cmd.ProcessState.ExitCode(), e, said.String()
}

// TestAttackBuilder: the table on this host, on one without namespaces, and where
// nothing can be decided.
func TestAttackBuilder(t *testing.T) {
	isolates(t, page{})
	code, e, said := attacked(t, "", "--attack-builder")
	if code != 0 || len(e.codes()) > 0 || len(e.Checks) < 20 || e.For != "attack-builder" {
		t.Errorf("exit %d: %s %+v", code, said, e)
	}
	code, e, said = attacked(t, "echo 0 > /proc/sys/user/max_user_namespaces; ", "--attack-builder")
	if code != 1 || e.state("isolation") != "warn" || e.state("read-token") != "bad" {
		t.Errorf("without namespaces: exit %d: %s %+v", code, said, e)
	}
	for _, c := range e.Checks {
		if want := map[bool]string{true: "UNAVAILABLE", false: "NOT_ISOLATED"}[strings.HasPrefix(c.Name, "new-namespaces")]; c.Name != "isolation" && c.Code != want {
			t.Errorf("without namespaces: %s: %s, want %s", c.Name, c.Code, want)
		}
	}
	code, e, _ = attacked(t, "export TMPDIR=/does/not/exist; ", "--attack-builder")
	for _, c := range e.Checks {
		if c.Name != "isolation" && c.Code != "UNAVAILABLE" {
			t.Errorf("without a directory: %+v", c)
		}
	}
	if code != 3 && code != 1 { // without a directory nothing shows that steps are isolated
		t.Errorf("exit %d", code)
	}
}

// TestAttackBuilderRemote: what is not this host is refused by name, before
// anything is attacked.
func TestAttackBuilderRemote(t *testing.T) {
	for _, args := range [][]string{
		{"--attack-builder=gcb"}, {"--attack-builder=https://build.example.test"}, {"--attack-builder", "gs://example/lantern"},
		{"v0.1.0", "--attack-builder", "--source", "git+https://git.example.test/lantern"},
		{"--attack-builder", "--source", "git@git.example.test:lantern"},
	} {
		named := strings.TrimPrefix(args[len(args)-1], "--attack-builder=")
		if code, _, said := attacked(t, "", args...); code != 2 || !strings.Contains(said, "USAGE "+named+": only this host") {
			t.Errorf("%v: exit %d: %s", args, code, said)
		}
	}
}

// TestAttackBuilderInterrupted: an interrupted run decides nothing and leaves
// nothing.
func TestAttackBuilderInterrupted(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "interrupted") // short: sockets go below it
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin+"/waybill", "doctor", "--attack-builder")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(2*time.Second, func() { _ = cmd.Process.Signal(os.Interrupt) }) // wherever it is
	_ = cmd.Wait()                                                                 // its status is compared
	if code := cmd.ProcessState.ExitCode(); code != 3 {
		t.Errorf("exit %d", code)
	}
	if err := os.Remove(dir); err != nil {
		t.Error(err)
	}
}
