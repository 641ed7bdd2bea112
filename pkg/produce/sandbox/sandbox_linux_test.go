package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
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
//
// What plays a part leaves by syscall.Exit: a program with a race detector
// sleeps a second in os.Exit, and there are hundreds of them.
func TestMain(m *testing.M) {
	if code, ok := Serve(); ok {
		syscall.Exit(code)
	}
	all := acts()
	maps.Copy(all, wallActs())
	if act, ok := all[os.Getenv("SANDBOX_ACT")]; ok {
		if err := act(); err != nil {
			fmt.Println(err)
			syscall.Exit(7)
		}
		syscall.Exit(0)
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
			fmt.Printf("%s\nuid %d\n", raw, os.Getuid())
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
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{"SANDBOX_ACT=daemon", "LOCK=" + os.Getenv("LOCK")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	ready, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	_, err = ready.Read(make([]byte, 1))
	if os.Getenv("STAY") != "" {
		fmt.Println("stays")
		select {}
	}
	return err
}

// daemon holds a lock as long as it lives, in the directory of the step.
func daemon() error {
	f, err := os.OpenFile(os.Getenv("LOCK"), os.O_RDWR|os.O_CREATE, 0o666)
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
func step(t *testing.T, mode Mode, act string, env ...string) (Step, *bytes.Buffer) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s := Step{Scratch: t.TempDir(), Command: []string{exe}, Env: append(env, "SANDBOX_ACT="+act), Log: &log}
	if mode.hasRoot() {
		s.Mounts, s.Command = []Mount{{Source: exe, Target: "/build/step"}}, []string{"/build/step"}
	}
	if err := Prepare(s.Scratch); err != nil {
		t.Fatal(err)
	}
	return s, &log
}

// run runs a step in a mode that this machine has, and skips in any other,
// unless it is demanded.
func run(t *testing.T, mode Mode, s Step) error {
	t.Helper()
	_, err := Run(t.Context(), mode, s)
	had(t, err)
	return err
}

func had(t *testing.T, err error) {
	t.Helper()
	var unfit *ModeError
	if !errors.As(err, &unfit) {
		return
	}
	demanded := os.Getenv("CI") != "" || os.Getenv("WAYBILL_REQUIRE_ISOLATION") != ""
	if demanded && (unfit.Mode != Isolated || os.Geteuid() == 0) {
		t.Fatal(err)
	}
	t.Skip(err)
}

// each runs a test in every mode.
func each(t *testing.T, test func(*testing.T, Mode)) {
	t.Helper()
	for _, mode := range []Mode{Isolated, Contained, Unisolated} {
		t.Run(string(mode), func(t *testing.T) { test(t, mode) })
	}
}

func TestNetwork(t *testing.T) {
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": "@waybill-sandbox-test-" + strconv.Itoa(os.Getpid())} {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		each(t, func(t *testing.T, mode Mode) {
			s, _ := step(t, mode, "dial", "NETWORK="+network, "ADDRESS="+l.Addr().String())
			if err := run(t, mode, s); (err == nil) != (mode == Unisolated) {
				t.Errorf("dialling a %s listener of the host: %v", network, err)
			}
		})
	}
}

func TestProcessesOfTheHost(t *testing.T) {
	t.Setenv("WAYBILL_SECRET", "secret")
	for _, act := range []string{"signal", "peek"} {
		each(t, func(t *testing.T, mode Mode) {
			s, _ := step(t, mode, act, "PID="+strconv.Itoa(os.Getpid()))
			if err := run(t, mode, s); (err == nil) != (mode == Unisolated) {
				t.Errorf("%s at the process of the test: %v", act, err)
			}
		})
	}
}

func TestEnvironmentIsExact(t *testing.T) {
	t.Setenv("WAYBILL_SECRET", "secret")
	each(t, func(t *testing.T, mode Mode) {
		s, log := step(t, mode, "environment", "A=1", "EMPTY=")
		if err := run(t, mode, s); err != nil {
			t.Fatal(err)
		}
		got := strings.Fields(log.String())
		slices.Sort(got)
		if want := []string{"A=1", "EMPTY=", "SANDBOX_ACT=environment"}; !slices.Equal(got, want) {
			t.Errorf("the step saw %q, want %q", got, want)
		}
		s, _ = step(t, mode, "stdin")
		if err := run(t, mode, s); err != nil {
			t.Error(err)
		}
	})
}

func TestPrivileges(t *testing.T) {
	each(t, func(t *testing.T, mode Mode) {
		s, log := step(t, mode, "status")
		if err := run(t, mode, s); err != nil {
			t.Fatal(err)
		}
		want := []string{"NoNewPrivs:\t1"}
		if mode.hasRoot() {
			const none = ":\t0000000000000000"
			want = append(want, "CapInh"+none, "CapPrm"+none, "CapEff"+none, "CapBnd"+none, "CapAmb"+none, "Seccomp:\t2", "uid 1000\n")
		}
		for _, line := range want {
			if !strings.Contains(log.String(), line) {
				t.Errorf("no %q in %s", line, log)
			}
		}
	})
	// This process may still start what needs privileges.
	s, _ := step(t, Unisolated, "status")
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
	each(t, func(t *testing.T, mode Mode) {
		lock := filepath.Join(Seen(mode, "").Out, "lock")
		s, _ := step(t, mode, "leave", "LOCK="+lock)
		if mode == Unisolated {
			s.Env[0] = "LOCK=" + filepath.Join(s.Scratch, "out", "lock")
		}
		if err := run(t, mode, s); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(s.Scratch, "out", "lock"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		alive := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
		if alive != (mode == Unisolated) {
			t.Errorf("the daemon is alive: %v", alive)
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
	})
}

func TestFailureNamesCommandAndLog(t *testing.T) {
	each(t, func(t *testing.T, mode Mode) {
		s, log := step(t, mode, "fail")
		err := run(t, mode, s)
		var failed *StepError
		if !errors.As(err, &failed) || failed.ExitCode != 7 || failed.Code() != "STEP_FAILED" {
			t.Fatalf("%v, want exit code 7", err)
		}
		for _, part := range []string{s.Command[0], "exit status 7", "line 2999", "the reason"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("no %q in %v", part, err)
			}
		}
		if len(err.Error()) > 3*maxTail || !strings.Contains(log.String(), "line 0\n") {
			t.Errorf("the error has %d bytes, the log %d", len(err.Error()), log.Len())
		}
	})
}

func TestContextEndsStep(t *testing.T) {
	each(t, func(t *testing.T, mode Mode) {
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		defer cancel()
		s, _ := step(t, mode, "forever")
		_, err := Run(ctx, mode, s)
		had(t, err)
		var failed *StepError
		if !errors.As(err, &failed) || !errors.Is(err, context.DeadlineExceeded) || failed.ExitCode != -1 {
			t.Errorf("%v, want the deadline", err)
		}
		s.Limits.Time = 300 * time.Millisecond
		s.Scratch = t.TempDir()
		if err := Prepare(s.Scratch); err != nil {
			t.Fatal(err)
		}
		if err := run(t, mode, s); !errors.As(err, &failed) || failed.Code() != "STEP_LIMIT" {
			t.Errorf("%v, want the limit of time", err)
		}
	})
}

func TestProgramComesFromTheStepsPath(t *testing.T) {
	each(t, func(t *testing.T, mode Mode) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\nexit 3\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir)
		var failed *StepError
		for name, c := range map[string]struct {
			command, path string
			code          int
		}{
			"in the step's PATH":  {"tool", "PATH=/not/there:TOOLS", 3},
			"in our PATH only":    {"tool", "PATH=/not/there", -1},
			"no PATH":             {"tool", "", -1},
			"by a relative path":  {"./tool", "", 3},
			"in a relative PATH":  {"tool", "PATH=.", -1},
			"a program not there": {"./not", "", -1},
		} {
			s, _ := step(t, mode, "")
			seen := dir
			if mode.hasRoot() {
				seen = "/build/tools"
			}
			s.Mounts, s.Command = []Mount{{Source: dir, Target: seen}}, []string{c.command}
			s.Env = []string{strings.ReplaceAll(c.path, "TOOLS", seen)}
			if err := os.CopyFS(filepath.Join(s.Scratch, "src"), os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			if err := run(t, mode, s); !errors.As(err, &failed) || failed.ExitCode != c.code {
				t.Errorf("%s: %v, want exit code %d", name, err, c.code)
			}
		}
	})
}

func TestRunRefuses(t *testing.T) {
	good := Step{Scratch: t.TempDir(), Command: []string{"/bin/true"}}
	if err := Prepare(good.Scratch); err != nil {
		t.Fatal(err)
	}
	for name, try := range map[string]func() (Report, error){
		"no mode":      func() (Report, error) { return Run(t.Context(), "", good) },
		"another mode": func() (Report, error) { return Run(t.Context(), "ISOLATED", good) },
		"no command":   func() (Report, error) { return Run(t.Context(), Unisolated, Step{Scratch: good.Scratch}) },
		"no directory": func() (Report, error) { return Run(t.Context(), Unisolated, Step{Command: good.Command}) },
		"a relative directory": func() (Report, error) {
			return Run(t.Context(), Unisolated, Step{Command: good.Command, Scratch: "scratch"})
		},
	} {
		if r, err := try(); err == nil || len(r.Had) > 0 {
			t.Errorf("%s was run: %v", name, r)
		}
	}
	if _, err := Run(t.Context(), Unisolated, good); err != nil {
		t.Errorf("the twin: %v", err)
	}
}
