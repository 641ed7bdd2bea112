//go:build amd64 || arm64

package attack

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/waybill-release/waybill/pkg/produce/sandbox"
)

const (
	output   = "../out/lantern.txt" // of a step
	stepEnv  = "WAYBILL_ATTACK_STEP"
	stepArg  = "-test.run=^$" // a test binary that does not call Serve runs nothing
	began    = "attempting"
	stopped  = "stopped: "
	lifetime = 15 * time.Second // of an attempt

	// More than a step may have, and little for a machine.
	tooManyProcesses = 250
	tooManyMebibytes = 256 // on disk; twice as many in memory
)

// world is what one attempt finds on this machine.
type world struct {
	dir, name, secret string
	address           [3]string // TCP, socket with a name, socket without
	victim            exec.Cmd  // plays the control plane
	reached, killed   atomic.Bool
	log               bytes.Buffer // complete when the step has ended
	ended             bool
	failed            error // how the step ended
}

func (w *world) at(name string) string { return filepath.Join(w.dir, name) }

// canaries are files with the secret, which every account may change.
func (w *world) canaries() (paths []string) {
	for _, name := range []string{
		"own/token", "own/home.txt", "own/state/release.json", "own/state/logs/evil.log", "own/state/files/release.yaml", "own/state/files/forged.sigstore.json",
		"own/source/.git/config", "own/cache/poison", "own/tools/tool", "step/src/LICENSE",
	} {
		paths = append(paths, w.at(name))
	}
	return append(paths, "/tmp/"+w.name)
}

// open makes a world. The victim has the secret in its environment and in an open
// file.
func (w *world) open(ctx context.Context) (err error) {
	w.name, w.secret = "waybill-attack-"+rand.Text(), rand.Text()
	if w.dir, err = os.MkdirTemp("", "waybill-attack-"); err != nil {
		return err
	}
	err = errors.Join(os.Chmod(w.dir, 0o755), os.Mkdir(w.at("step"), 0o755), sandbox.Prepare(w.at("step")))
	for _, path := range w.canaries() {
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(w.secret), 0o644), os.Chmod(path, 0o666))
	}
	for i, kind := range [][2]string{{"tcp", "127.0.0.1:0"}, {"unix", w.at("own/socket")}, {"unix", "@" + w.name}} {
		l, err2 := net.Listen(kind[0], kind[1])
		if err2 != nil {
			return err2
		}
		_ = os.Chmod(kind[1], 0o666)                     // of the one that has a file
		context.AfterFunc(ctx, func() { _ = l.Close() }) // only read from
		w.address[i] = l.Addr().String()
		go w.listen(l)
	}
	secret, err2 := os.Open(w.at("own/token"))
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	defer secret.Close()
	w.victim = exec.Cmd{Path: "/bin/sleep", Args: []string{"sleep", "60"}, Env: []string{"SECRET=" + w.secret}, Stdin: secret}
	if err = w.victim.Start(); err == nil {
		go func() { _ = w.victim.Wait(); w.killed.Store(true) }() // it ends by a signal
	}
	return err
}

// listen waits for a connection that says the name of this world.
func (w *world) listen(l net.Listener) {
	for c, err := l.Accept(); err == nil; c, err = l.Accept() {
		_ = c.SetDeadline(time.Now().Add(time.Second)) // never fails on a new connection
		said, _ := io.ReadAll(io.LimitReader(c, 100))  // what was said before
		w.reached.CompareAndSwap(false, string(said) == w.name)
		_ = c.Close() // nothing was written
	}
}

// close ends and removes everything.
func (w *world) close() error {
	if w.victim.Process != nil {
		_ = w.victim.Process.Kill() // it may have ended
	}
	for end := time.Now().Add(lifetime); (w.held() || w.victim.Process != nil && !w.killed.Load()) && time.Now().Before(end); { // what is left ends itself
		time.Sleep(20 * time.Millisecond)
	}
	_ = os.Remove("/tmp/" + w.name) // it may not be there
	return sandbox.Remove(context.Background(), w.dir)
}

// attempt tries a row in a mode, or as an ordinary process if there is none, and
// says whether its harm was seen, and what the step met.
func (b Builder) attempt(ctx context.Context, r Row, mode sandbox.Mode) (seen bool, met string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lifetime)
	defer cancel()
	w := &world{}
	defer func() { err = errors.Join(err, w.close()) }()
	program, err := os.Executable()
	if err := errors.Join(err, w.open(ctx)); err != nil {
		return false, "", err
	}
	var disk syscall.Statfs_t
	var memory uint64 // in KiB
	raw, err := os.ReadFile("/proc/meminfo")
	_, free, _ := strings.Cut(string(raw), "MemAvailable:")
	_, err2 := fmt.Sscan(free, &memory)
	if err = errors.Join(err, err2, syscall.Statfs(w.dir, &disk)); err != nil || min(memory<<10, disk.Bavail*uint64(disk.Bsize)) < 8*tooManyMebibytes<<20 {
		return false, "", cmp.Or(err, errors.New("less than 2 GiB of memory or disk are free"))
	}
	at, own, tools := sandbox.Seen(mode, w.at("step")), w.at("own"), w.at("own/tools")
	step := sandbox.Step{Scratch: w.at("step"), Log: &w.log, Network: b.Network, Limits: map[string]sandbox.Limits{
		"fork-bomb": {Processes: 64}, "fill-disk": {Disk: 64 << 20}, "eat-memory": {Memory: 128 << 20},
	}[r.Act]}
	if r.Act == "use-proxy" && len(b.Network) == 0 {
		step.Network = []string{"declared.example.test:443"}
	}
	if strings.HasPrefix(at.Out, "/build/") {
		step.Mounts = []sandbox.Mount{{Source: program, Target: "/build/waybill-step"}, {Source: tools, Target: "/build/tools"}}
		tools, program = "/build/tools", "/build/waybill-step"
	}
	_, port, _ := net.SplitHostPort(w.address[0])
	step.Command, step.Env = []string{program, stepArg}, []string{
		stepEnv + "=" + r.Act, "HOME=" + at.Home, "TMPDIR=" + at.Temp, "NAME=" + w.name, "TOKEN=" + own + "/token", "HOMEFILE=" + own + "/home.txt",
		"STATE=" + own + "/state", "RECORD=" + own + "/state/release.json", "SOURCE=" + own + "/source", "CACHE=" + own + "/cache", "TOOLS=" + tools,
		"PID=" + fmt.Sprint(w.victim.Process.Pid), "FULCIO=" + w.address[0], "REKOR=" + w.address[0], "PORT=" + port, "SOCKET=" + w.address[1], "ABSTRACT=" + w.address[2],
	}
	done := make(chan error, 1)
	go func() { done <- b.step(ctx, mode, step) }()
	for grace := 5; !seen && grace > 0; seen = w.sees(r.harm) { // harm may show a moment after the end
		select {
		case w.failed = <-done:
			w.ended, done = true, nil
		case <-time.After(20 * time.Millisecond):
			if w.ended {
				grace--
			}
		}
	}
	late := ctx.Err()
	if cancel(); !w.ended {
		w.failed = <-done
	}
	if _, met, _ = strings.Cut(w.log.String(), stopped); met == "" && w.failed != nil {
		met = cmp.Or(errors.Unwrap(w.failed), w.failed).Error() // without the log
	}
	met, _, _ = strings.Cut(cmp.Or(met, "no effect outside"), "\n")
	if !seen && (late != nil || !strings.Contains(w.log.String(), began)) {
		err = errors.New("the step did not run to its end: " + met)
	}
	return seen, met, err
}

// step runs a step in a mode, or as an ordinary process.
func (b Builder) step(ctx context.Context, mode sandbox.Mode, s sandbox.Step) error {
	if mode != "" {
		_, err := b.Run(ctx, mode, s)
		return err
	}
	cmd := exec.CommandContext(ctx, s.Command[0], s.Command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = filepath.Join(s.Scratch, "src"), s.Env, s.Log, s.Log
	cmd.SysProcAttr, cmd.WaitDelay = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}, time.Second
	runtime.LockOSThread() // never unlocked: the kernel takes the end of the thread for ours
	return cmd.Run()
}

// sees looks for harm from outside of the step.
func (w *world) sees(harm string) bool {
	all, _ := sandbox.Below(os.Getpid())
	switch harm {
	case "stolen":
		raw, err := os.ReadFile(w.at("step/out/lantern.txt"))
		return err == nil && bytes.Contains(raw, []byte(w.secret))
	case "changed":
		return slices.ContainsFunc(w.canaries(), func(path string) bool {
			raw, err := os.ReadFile(path)
			return err != nil || string(raw) != w.secret
		})
	case "reached":
		return w.reached.Load()
	case "ended":
		return w.killed.Load()
	case "outlived":
		return w.ended && w.held()
	case "filled":
		info, err := os.Stat(w.at(fmt.Sprintf("step/home/%d", tooManyMebibytes)))
		return err == nil && info.Size() == 1<<20
	case "crowded":
		return len(all) >= tooManyProcesses
	case "eaten":
		return slices.ContainsFunc(all, func(pid int) bool {
			var size, pages int
			raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)) // it may have ended
			_, _ = fmt.Sscan(string(raw), &size, &pages)
			return pages*os.Getpagesize() >= 2*tooManyMebibytes<<20
		})
	case "nested":
		return slices.ContainsFunc(all, func(pid int) bool {
			parent, _ := sandbox.ParentOf(pid)
			own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", pid))
			above, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", parent))
			return parent != os.Getpid() && errors.Join(err, err2) == nil && own != above
		})
	}
	return false
}

// held reports whether a process of the step holds its output.
func (w *world) held() bool {
	f, err := os.Open(w.at("step/out/lantern.txt"))
	if err != nil {
		return false
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
}

// Serve runs this process as a malicious step, if it was started as one, and
// returns the exit status.
func Serve() (code int, ok bool) {
	act := slices.IndexFunc(Rows(), func(r Row) bool { return r.Act == os.Getenv(stepEnv) })
	if act < 0 || len(os.Args) != 2 || os.Args[1] != stepArg {
		return 0, false
	}
	time.AfterFunc(lifetime, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }) // if nothing else ends it
	fmt.Println(began)
	if err := Rows()[act].Do(); err != nil {
		fmt.Printf("%s%v\n", stopped, err)
		return 3, true
	}
	return 0, true
}

// Do attempts what the row says. The error is what stopped it.
func (r Row) Do() (err error) {
	word := strings.Fields(os.ExpandEnv(r.does))
	arg := slices.Concat(word[1:], []string{"", ""})
	switch word[0] {
	case "read":
		return each(word[1:], func(name string) error {
			raw, err := os.ReadFile(name)
			if err == nil {
				err = os.WriteFile(output, raw, 0o644)
			}
			return err
		})
	case "write":
		return os.WriteFile(arg[0], []byte("harm\n"), 0o644)
	case "signal":
		pid, _ := strconv.Atoi(arg[0])
		return syscall.Kill(cmp.Or(pid, 1<<30), syscall.SIGKILL)
	case "connect":
		return connect(arg[0], arg[1], "")
	case "proxy":
		return each(word[1:], func(to string) error { return connect("tcp", cmp.Or(os.Getenv("HTTPS_PROXY"), to), to) })
	case "start":
		return start(arg[0], arg[1])
	case "fork":
		for i := 0; i < tooManyProcesses && err == nil; i++ {
			err = start("5", "")
		}
		time.Sleep(time.Second)
	case "fill":
		for i := 1; i <= tooManyMebibytes && err == nil; i++ {
			err = os.WriteFile(fmt.Sprintf("../home/%d", i), make([]byte, 1<<20), 0o644)
			time.Sleep(5 * time.Millisecond) // the limit is watched
		}
	case "eat":
		taken := bytes.Repeat([]byte{1}, 2*tooManyMebibytes<<20)
		time.Sleep(time.Second)
		return os.WriteFile(output, taken[:1], 0o644)
	}
	return err
}

// each tries all, and is stopped only if all are.
func each(words []string, try func(string) error) (err error) {
	for _, word := range words {
		next := try(word)
		if err = errors.Join(err, next); next == nil {
			return nil
		}
	}
	return err
}

// start starts a process in a session of its own, or as root in namespaces, that
// keeps the output locked as long as it lives.
func start(seconds, how string) error {
	f, err := os.Create(output)
	if err != nil {
		return err
	}
	defer f.Close()
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) // another process of the step may have it
	cmd := exec.Command("/bin/sleep", seconds)
	cmd.ExtraFiles, cmd.SysProcAttr = []*os.File{f}, &syscall.SysProcAttr{Setsid: true}
	if how == "root" {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS
	}
	if err = cmd.Start(); err == nil && how != "" {
		err = cmd.Wait()
	}
	return err
}

// connect says its name to a listener, at once or through a proxy.
func connect(network, address, to string) error {
	c, err := net.DialTimeout(network, strings.TrimPrefix(address, "http://"), 3*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if address != to && to != "" {
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", to)
		answer := make([]byte, 100)
		n, _ := c.Read(answer) // no answer is no success
		if line, _, _ := strings.Cut(string(answer[:n]), "\r\n"); !strings.Contains(line, " 200 ") {
			return fmt.Errorf("CONNECT %s: %s", to, line)
		}
	}
	_, err = io.WriteString(c, os.Getenv("NAME"))
	return err
}
