package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary play the step: what a step tries is then
// written in Go, here, and needs no tool.
func TestMain(m *testing.M) {
	if act, ok := acts()[os.Getenv("SANDBOX_ACT")]; ok {
		if err := act(); err != nil {
			fmt.Println(err)
			os.Exit(7)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func acts() map[string]func() error {
	return map[string]func() error{
		"dial": func() error {
			c, err := net.Dial(os.Getenv("NETWORK"), os.Getenv("ADDRESS"))
			if err == nil {
				err = c.Close()
			}
			return err
		},
		"environment": func() error {
			fmt.Println(strings.Join(os.Environ(), "\n"))
			return nil
		},
		"status": func() error {
			raw, err := os.ReadFile("/proc/self/status")
			fmt.Printf("%s\npid %d uid %d", raw, os.Getpid(), os.Getuid())
			return err
		},
		"fail": func() error {
			for i := range 3000 {
				fmt.Println("line", i)
			}
			return errors.New("the reason")
		},
		"forever": func() error { select {} },
		"leave":   leave,
		"daemon":  daemon,
		"stdin": func() error {
			raw, err := io.ReadAll(os.Stdin)
			if len(raw) > 0 {
				return errors.New("something on standard input")
			}
			return err
		},
		"signal": func() error {
			pid, _ := strconv.Atoi(os.Getenv("PID"))
			return syscall.Kill(pid, 0)
		},
		"peek": func() error {
			_, err := os.ReadFile("/proc/" + os.Getenv("PID") + "/environ")
			return err
		},
	}
}

// leave starts a daemon in a session of its own and ends when that is ready.
func leave() error {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{"SANDBOX_ACT=daemon"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	ready, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	_, err = ready.Read(make([]byte, 1))
	return err
}

// daemon holds a lock as long as it lives, in the directory of the step.
func daemon() error {
	f, err := os.OpenFile("lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	fmt.Fprint(f, os.Getpid())
	fmt.Println("ready")
	select {}
}

// step is this binary in a role.
func step(t *testing.T, act string, env ...string) (Step, *bytes.Buffer) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	return Step{Dir: t.TempDir(), Command: []string{exe}, Env: append(env, "SANDBOX_ACT="+act), Log: &log}, &log
}

// isolated skips where isolation cannot be had, unless it is demanded.
func isolated(t *testing.T) {
	t.Helper()
	if mode, why := Probe(); mode != Isolated {
		if os.Getenv("WAYBILL_REQUIRE_ISOLATION") != "" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
}

func modes() []Mode { return []Mode{Isolated, Unisolated} }

func TestNetwork(t *testing.T) {
	isolated(t)
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": "@waybill-sandbox-test-" + strconv.Itoa(os.Getpid())} {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for _, mode := range modes() {
			s, _ := step(t, "dial", "NETWORK="+network, "ADDRESS="+l.Addr().String())
			if err := Run(t.Context(), mode, s); (err == nil) != (mode == Unisolated) {
				t.Errorf("%s: dialling a %s listener of the host: %v", mode, network, err)
			}
		}
	}
}

func TestProcessesOfTheHost(t *testing.T) {
	isolated(t)
	t.Setenv("WAYBILL_SECRET", "secret")
	for _, act := range []string{"signal", "peek"} {
		for _, mode := range modes() {
			s, _ := step(t, act, "PID="+strconv.Itoa(os.Getpid()))
			if err := Run(t.Context(), mode, s); (err == nil) != (mode == Unisolated) {
				t.Errorf("%s: %s at the process of the test: %v", mode, act, err)
			}
		}
	}
}

func TestEnvironmentIsExact(t *testing.T) {
	t.Setenv("WAYBILL_SECRET", "secret")
	for _, mode := range modes() {
		if mode == Isolated {
			isolated(t)
		}
		s, log := step(t, "environment", "A=1", "EMPTY=")
		if err := Run(t.Context(), mode, s); err != nil {
			t.Fatal(err)
		}
		got := strings.Fields(log.String())
		slices.Sort(got)
		if want := []string{"A=1", "EMPTY=", "SANDBOX_ACT=environment"}; !slices.Equal(got, want) {
			t.Errorf("%s: the step saw %q, want %q", mode, got, want)
		}
		s, _ = step(t, "stdin")
		if err := Run(t.Context(), mode, s); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

func TestPrivileges(t *testing.T) {
	isolated(t)
	for _, mode := range modes() {
		s, log := step(t, "status")
		if err := Run(t.Context(), mode, s); err != nil {
			t.Fatal(err)
		}
		want := []string{"NoNewPrivs:\t1"}
		if mode == Isolated {
			want = append(want, "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "pid 1 uid 1000")
		}
		for _, line := range want {
			if !strings.Contains(log.String(), line) {
				t.Errorf("%s: no %q in %s", mode, line, log)
			}
		}
	}
	// This process may still start what needs privileges.
	s, _ := step(t, "status")
	cmd := exec.Command(s.Command[0])
	cmd.Env = s.Env
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), "NoNewPrivs:\t0") {
		t.Errorf("a process outside any step: %v: %s", err, out)
	}
}

// TestDaemonEnds: what a step leaves behind is dead when Run returns, because
// nobody holds its lock any more.
func TestDaemonEnds(t *testing.T) {
	isolated(t)
	for _, mode := range modes() {
		s, _ := step(t, "leave")
		if err := Run(t.Context(), mode, s); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(s.Dir, "lock"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		alive := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
		if alive != (mode == Unisolated) {
			t.Errorf("%s: the daemon is alive: %v", mode, alive)
		}
		if alive {
			raw, _ := io.ReadAll(f)
			pid, err := strconv.Atoi(string(raw))
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestFailureNamesCommandAndLog(t *testing.T) {
	for _, mode := range modes() {
		if mode == Isolated {
			isolated(t)
		}
		s, log := step(t, "fail")
		err := Run(t.Context(), mode, s)
		var failed *StepError
		if !errors.As(err, &failed) || failed.ExitCode != 7 || failed.Code() != "STEP_FAILED" {
			t.Fatalf("%s: %v, want exit code 7", mode, err)
		}
		for _, part := range []string{s.Command[0], "exit status 7", "line 2999", "the reason"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: no %q in %v", mode, part, err)
			}
		}
		if len(err.Error()) > 3*maxTail || !strings.Contains(log.String(), "line 0\n") {
			t.Errorf("%s: the error has %d bytes, the log %d", mode, len(err.Error()), log.Len())
		}
	}
}

func TestContextEndsStep(t *testing.T) {
	for _, mode := range modes() {
		if mode == Isolated {
			isolated(t)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		s, _ := step(t, "forever")
		err := Run(ctx, mode, s)
		cancel()
		var failed *StepError
		if !errors.As(err, &failed) || !errors.Is(err, context.DeadlineExceeded) || failed.ExitCode != -1 {
			t.Errorf("%s: %v, want the deadline", mode, err)
		}
	}
}

func TestProgramComesFromTheStepsPath(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	var failed *StepError
	for name, c := range map[string]struct {
		step Step
		code int
	}{
		"in the step's PATH":  {Step{Command: []string{"tool"}, Env: []string{"PATH=/not/there:" + dir}}, 3},
		"in our PATH only":    {Step{Command: []string{"tool"}, Env: []string{"PATH=/not/there"}}, -1},
		"no PATH":             {Step{Command: []string{"tool"}}, -1},
		"by a relative path":  {Step{Command: []string{"./tool"}}, 3},
		"in a relative PATH":  {Step{Command: []string{"tool"}, Env: []string{"PATH=."}}, -1},
		"a program not there": {Step{Command: []string{"./not"}}, -1},
	} {
		c.step.Dir = dir
		if err := Run(t.Context(), Unisolated, c.step); !errors.As(err, &failed) || failed.ExitCode != c.code {
			t.Errorf("%s: %v, want exit code %d", name, err, c.code)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	good := Step{Dir: t.TempDir(), Command: []string{"/bin/true"}}
	for name, try := range map[string]func() error{
		"no mode":      func() error { return Run(t.Context(), "", good) },
		"another mode": func() error { return Run(t.Context(), "ISOLATED", good) },
		"no command":   func() error { return Run(t.Context(), Unisolated, Step{Dir: good.Dir}) },
		"no directory": func() error { return Run(t.Context(), Unisolated, Step{Command: good.Command}) },
	} {
		if err := try(); err == nil {
			t.Errorf("%s was run", name)
		}
	}
}
