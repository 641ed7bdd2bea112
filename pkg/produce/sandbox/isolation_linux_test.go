//go:build amd64 || arm64

package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// wallActs are what steps of the tests below do.
func wallActs() map[string]func() error {
	return map[string]func() error{
		"list": func() error {
			for _, dir := range strings.Fields(os.Getenv("DIRS")) {
				entries, err := os.ReadDir(dir)
				if err != nil {
					return err
				}
				for _, e := range entries {
					fmt.Println(filepath.Join(dir, e.Name()))
				}
			}
			return nil
		},
		"write": func() error { return os.WriteFile(os.Getenv("FILE"), []byte("x"), 0o600) },
		"read": func() error {
			_, err := os.ReadFile(os.Getenv("FILE"))
			return err
		},
		"fill": func() error {
			for i := range 400 {
				if err := os.WriteFile(filepath.Join("..", "home", strconv.Itoa(i)), make([]byte, 1<<20), 0o600); err != nil {
					return err
				}
			}
			return nil
		},
		"launch": func() error {
			s := Step{
				Scratch: os.Getenv("SCRATCH"), Command: []string{"/build/step"}, Env: []string{"SANDBOX_ACT=leave", "LOCK=/build/out/lock", "STAY=1"},
				Mounts: []Mount{{Source: os.Getenv("EXE"), Target: "/build/step"}}, Log: os.Stdout,
			}
			_, err := Run(context.Background(), Mode(os.Getenv("MODE")), s)
			return err
		},
		"hide":  hide,
		"close": func() error { return errors.Join(os.MkdirAll("../home/a/b", 0o755), os.Chmod("../home/a", 0)) },
	}
}

// inBothModes runs a test in both isolated modes.
func inBothModes(t *testing.T, test func(*testing.T, Mode)) {
	t.Helper()
	for _, mode := range []Mode{Isolated, Contained} {
		t.Run(string(mode), func(t *testing.T) { test(t, mode) })
	}
}

func TestExamine(t *testing.T) {
	r := Examine(t.Context())
	t.Logf("%s; had %v; lacking %v; %v", r.Mode, r.Had, r.Lacking, r.How)
	mode, why := r.Mode, r.Reason()
	if (why == "") != (mode == Isolated) {
		t.Errorf("mode %s, reason %q", mode, why)
	}
	for _, g := range Guarantees() {
		lacks := slices.ContainsFunc(r.Lacking, func(l Lack) bool { return l.Guarantee == g && l.Reason != "" })
		if r.Has(g) == lacks {
			t.Errorf("%s: had %v, lacking %v", g, r.Has(g), lacks)
		}
	}
	if missing := r.missing(Isolated); (len(missing) == 0) != (mode == Isolated) {
		t.Errorf("%s without %v", mode, missing)
	}
	if (Report{}).Has(NetworkClosed) || len((Report{}).missing(Contained)) == 0 {
		t.Error("the zero report proves something")
	}
	had := noGuarantees("x")
	if had.Reason() == "" || len(had.Loud()) != len(Guarantees()) {
		t.Errorf("nothing had, and told as %q", had.Loud())
	}
}

// TestRootHoldsNothingElse lists the whole of a step's root: a new name is a
// new decision.
func TestRootHoldsNothingElse(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode Mode) {
		s, log := step(t, mode, "list", "DIRS=/ /build /build/src /build/out /build/home /tmp /dev /etc /etc/ssl")
		if err := run(t, mode, s); err != nil {
			t.Fatal(err)
		}
		allowed := strings.Fields(`/build /dev /etc /proc /tmp /var /usr /bin /sbin /lib /lib32 /lib64 /libx32 /nix
			/build/src /build/out /build/home /build/step
			/dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/fd /dev/stdin /dev/stdout /dev/stderr
			/etc/passwd /etc/group /etc/hosts /etc/nsswitch.conf /etc/ssl /etc/ssl/certs /etc/pki
			/etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d /etc/alternatives`)
		for _, name := range strings.Fields(log.String()) {
			if strings.HasPrefix(name, "[") {
				break
			}
			if !slices.Contains(allowed, name) {
				t.Errorf("a step sees %s", name)
			}
		}
	})
}

func TestMountsAreReadOnly(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil { //nolint:gosec // the mount shall close it, not the mode
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	inBothModes(t, func(t *testing.T, mode Mode) {
		for file, can := range map[string]bool{
			"/build/input/f": false, "/build/input/new": false, "/build/src/new": false, "/new": false, "/dev/new": false, "/build/new": false,
			"/build/out/new": true, "/build/home/new": true, "/tmp/new": true,
		} {
			s, _ := step(t, mode, "write", "FILE="+file)
			s.Mounts = append(s.Mounts, Mount{Source: dir, Target: "/build/input"})
			if err := run(t, mode, s); (err == nil) != can {
				t.Errorf("writing %s: %v", file, err)
			}
			s, _ = step(t, mode, "read", "FILE=/build/input/f")
			s.Mounts = append(s.Mounts, Mount{Source: dir, Target: "/build/input"})
			if err := run(t, mode, s); err != nil {
				t.Errorf("reading an input: %v", err)
			}
		}
	})
}

func TestMountsThatShowTooMuch(t *testing.T) {
	scratch := t.TempDir()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/", link); err != nil {
		t.Fatal(err)
	}
	for _, m := range []Mount{
		{"/", "/build/all"}, {link, "/build/all"}, {home, "/build/home2"}, {filepath.Dir(scratch), "/build/others"}, {scratch, "/build/own"},
		{"/proc", "/build/p"}, {"/sys", "/build/s"}, {"/run", "/build/r"}, {"/dev", "/build/d"}, {"/usr", "/dev/x"}, {"/usr", "/proc"},
		{"/etc", "/build/etc"}, {"/var", "/build/var"}, {"usr", "/build/usr"}, {"/usr", "build/usr"}, {"/usr", "/build/../x"}, {"/usr", "/"},
		{"/usr", "/build"}, {"/usr", "/build/out"}, {"/usr", "/tmp"}, {"/no/such", "/build/x"},
	} {
		if got, err := admit(m, scratch); err == nil {
			t.Errorf("%v was mounted as %v", m, got)
		}
	}
	if _, err := admit(Mount{"/usr/bin", "/build/tools"}, scratch); err != nil {
		t.Errorf("the twin: %v", err)
	}
	s := Step{Scratch: scratch, Command: []string{"/bin/true"}, Mounts: []Mount{{home, "/build/h"}}}
	var unfit *ModeError
	if _, err := Run(t.Context(), Contained, s); !errors.As(err, &unfit) {
		t.Errorf("a step with a home: %v", err)
	}
}

// TestAccounts: what a step writes belongs to an account that is not ours, and
// not that of the next step.
func TestAccounts(t *testing.T) {
	var seen []uint32
	for range 2 {
		s, _ := step(t, Isolated, "write", "FILE=/build/out/f")
		report, err := Run(t.Context(), Isolated, s)
		had(t, err)
		if err != nil {
			t.Fatal(err)
		}
		if !report.Has(OwnAccount) {
			t.Errorf("isolated without an account: %v", report)
		}
		info, err := os.Lstat(filepath.Join(s.Scratch, "out", "f"))
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, info.Sys().(*syscall.Stat_t).Uid)
		if _, err := Collect(t.Context(), filepath.Join(s.Scratch, "out"), OutputLimits{}); err != nil {
			t.Error(err)
		}
	}
	if os.Geteuid() == 0 && (seen[0] == seen[1] || seen[0] < firstPair || seen[1] < firstPair) {
		t.Errorf("the accounts of two steps are %v", seen)
	}
	s, _ := step(t, Contained, "write", "FILE=/build/out/f")
	report, err := Run(t.Context(), Contained, s)
	had(t, err)
	if err != nil || report.Has(OwnAccount) {
		t.Errorf("contained: %v, %v", report, err)
	}
}

func TestDiskIsLimited(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode Mode) {
		for most, code := range map[int64]string{32 << 20: "STEP_LIMIT", 1 << 30: ""} {
			s, _ := step(t, mode, "fill")
			s.Limits.Disk = most
			err := run(t, mode, s)
			var failed *StepError
			if errors.As(err, &failed) && failed.Code() != code || (err == nil) != (code == "") {
				t.Errorf("filling %d bytes: %v", most, err)
			}
		}
	})
}

func TestRemoveWhatWasClosed(t *testing.T) {
	each(t, func(t *testing.T, mode Mode) {
		s, _ := step(t, mode, "close")
		if err := run(t, mode, s); err != nil {
			t.Fatal(err)
		}
		if err := Remove(context.WithoutCancel(t.Context()), s.Scratch); err != nil {
			t.Error(err)
		}
	})
}

// TestMaskOfTheLauncher: a source that our own mask has closed is still the
// step's to read.
func TestMaskOfTheLauncher(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode Mode) {
		s, _ := step(t, mode, "read", "FILE=/build/src/d/f")
		dir := filepath.Join(s.Scratch, "src", "d")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "f"), nil, 0o600), os.Chmod(filepath.Join(s.Scratch, "src"), 0o700)); err != nil {
			t.Fatal(err)
		}
		if err := run(t, mode, s); err != nil {
			t.Error(err)
		}
	})
}

// TestNetworkOfDeclaredHosts: the proxy is told to the step, and what is asked
// of it is in the report.
func TestNetworkOfDeclaredHosts(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode Mode) {
		s, log := step(t, mode, "environment")
		s.Network = []string{"declared.example.test:443"}
		if err := run(t, mode, s); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), "HTTPS_PROXY=http://"+proxyAddress+"\n") {
			t.Errorf("no proxy in %s", log)
		}
		s, _ = step(t, mode, "dial", "NETWORK=tcp", "ADDRESS="+proxyAddress)
		s.Network = []string{"declared.example.test:443"}
		if err := run(t, mode, s); err != nil {
			t.Errorf("reaching the proxy: %v", err)
		}
		s.Network, s.Scratch = nil, t.TempDir()
		if err := Prepare(s.Scratch); err != nil {
			t.Fatal(err)
		}
		if err := run(t, mode, s); err == nil {
			t.Error("there is a proxy without a declared host")
		}
	})
}

// TestNothingStays: neither control groups nor mounts of a step outlive it.
func TestNothingStays(t *testing.T) {
	count := func() string {
		groups, _ := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/*/waybill-%d-*", os.Getpid()))
		mounts, err := os.ReadFile("/proc/self/mounts")
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(len(groups), bytes.Count(mounts, []byte("\n")))
	}
	inBothModes(t, func(t *testing.T, mode Mode) {
		before := count()
		s, _ := step(t, mode, "fail")
		_ = run(t, mode, s) // it fails on purpose
		if after := count(); after != before {
			t.Errorf("groups and mounts: %s, before %s", after, before)
		}
	})
}

// TestNothingIsInherited: a step has three open files, and none of them is ours.
func TestNothingIsInherited(t *testing.T) {
	held, err := syscall.Open(os.Args[0], syscall.O_RDONLY, 0) // not closed on exec
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(held)
	each(t, func(t *testing.T, mode Mode) {
		s, log := step(t, mode, "list")
		s.Command, s.Env = []string{"ls", "/proc/self/fd"}, []string{"PATH=" + systemPath}
		if mode.hasRoot() {
			s.Network = []string{"declared.example.test:443"}
		}
		if err := run(t, mode, s); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(strings.Fields(log.String()), " "); got != "0 1 2 3" { // the last is that of ls itself
			t.Errorf("a step has the descriptors %s", got)
		}
	})
}

// TestLauncherIsKilled: a launcher that can do nothing any more takes its step
// and all that this started with it.
func TestLauncherIsKilled(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode Mode) {
		s, _ := step(t, mode, "")
		if _, err := Run(t.Context(), mode, Step{Scratch: s.Scratch, Command: []string{"/bin/true"}}); err != nil {
			had(t, err)
			t.Fatal(err)
		}
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		scratch := t.TempDir()
		if err := Prepare(scratch); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(exe)
		cmd.Env = []string{"SANDBOX_ACT=launch", "SCRATCH=" + scratch, "EXE=" + exe, "MODE=" + string(mode), "TMPDIR=" + os.TempDir(), "HOME=" + os.Getenv("HOME")}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // the daemon has its lock
			t.Fatal(err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		f, err := os.Open(filepath.Join(scratch, "out", "lock"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil { // waits for the daemon's end
			t.Error(err)
		}
		if err := Remove(context.WithoutCancel(t.Context()), scratch); err != nil && os.Geteuid() == 0 {
			t.Error(err)
		}
	})
}

// TestProgramWithoutRunner: a program that does not call Serve never becomes
// a launcher within a launcher.
func TestProgramWithoutRunner(t *testing.T) {
	t.Setenv(runnerEnv, "1")
	s, _ := step(t, Contained, "status")
	var unfit *ModeError
	if _, err := Run(t.Context(), Contained, s); !errors.As(err, &unfit) || !strings.Contains(err.Error(), "sandbox.Serve") {
		t.Errorf("%v", err)
	}
	// Neither does the name alone make a runner, nor a talk with nobody.
	cmd := exec.Command(s.Command[0])
	cmd.Path, cmd.Args, cmd.Env = os.Args[0], []string{runnerName, runnerArg}, []string{runnerEnv + "=1"}
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("a runner without a launcher: %s", out)
	}
}
