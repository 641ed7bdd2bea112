//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// proxyAddress is where a step finds the proxy, in its own network.
const proxyAddress = "127.0.0.1:3128"

// Serve makes this process the runner of one step, if it was started as one,
// and returns what to end it with. It is the first process of the step's
// process namespace: with it, the kernel ends all others.
func Serve() (code int, ok bool) {
	if os.Args[0] != runnerName || os.Getenv(runnerEnv) == "" {
		return 0, false
	}
	if unix.CloseRange(talkFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) != nil {
		return 1, true // what our launcher was given by its own parent would be the step's
	}
	t, err := openTalk(os.NewFile(talkFD, "launcher"))
	if err != nil {
		return 1, true
	}
	// Nothing that a step sends to us has an effect, and what it starts has
	// the kernel's defaults: a signal that is ignored would be inherited so.
	signal.Notify(make(chan os.Signal, 1))
	var s spec
	if _, err := t.hear(&s); err != nil {
		return 1, true
	}
	r := &runner{spec: s, talk: t}
	if err := r.build(); err != nil {
		_ = t.say(ready{Error: err.Error(), Report: r.report}) // without it the launcher says so
		return 1, true
	}
	done := make(chan int, 2)
	go func() { done <- r.run() }()
	go func() {
		_, _ = t.hear(&struct{}{}) // nothing more is said: this is the launcher's end, and ours
		for end := time.Now().Add(giveBack); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			_ = unix.Kill(-1, unix.SIGKILL) // there may be none yet, or none left
		}
		done <- 1
	}()
	return <-done, true
}

// runner is the state of one runner.
type runner struct {
	spec   spec
	talk   talk
	report Report
	proxy  *os.File // the listener inside, for the launcher
}

// build makes the walls that a process can make around itself, from the
// outside in.
func (r *runner) build() error {
	if err := r.become(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte("waybill")); err != nil {
		return fmt.Errorf("naming the host: %w", err)
	}
	if err := r.network(); err != nil {
		return err
	}
	if err := r.files(); err != nil {
		return err
	}
	if err := r.limits(); err != nil {
		return err
	}
	r.report.have(FilesHidden, ProcessesHidden, NetworkClosed, IPCHidden)
	return nil
}

// become takes the runner's account on, where it was not given at the start.
func (r *runner) become() error {
	if r.spec.Account != delegated {
		return nil
	}
	if err := syscall.Setgroups([]int{}); err != nil {
		return fmt.Errorf("leaving groups: %w", err)
	}
	if err := syscall.Setresgid(runnerID, runnerID, runnerID); err != nil {
		return fmt.Errorf("taking the runner's group: %w", err)
	}
	if err := syscall.Setresuid(runnerID, runnerID, runnerID); err != nil {
		return fmt.Errorf("taking the runner's account: %w", err)
	}
	return nil
}

// network leaves the new network namespace as it is, with nothing in it; for
// a step with declared hosts, loopback comes up, and the listener on it goes to
// the launcher, which answers it from outside.
func (r *runner) network() error {
	if !r.spec.Proxied {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening the step's network: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // it was only asked
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("opening the step's loopback: %w", err)
	}
	l, err := net.Listen("tcp4", proxyAddress)
	if err != nil {
		return fmt.Errorf("listening for the step: %w", err)
	}
	defer l.Close()
	r.proxy, err = l.(*net.TCPListener).File()
	return err
}

// mostFiles is how many files a process of a step may have open.
const mostFiles = 4096

// limits bounds what each process may have. The sum over all is for control
// groups to bound.
func (r *runner) limits() error {
	set := map[int]uint64{
		unix.RLIMIT_CORE: 0, unix.RLIMIT_MEMLOCK: 1 << 20, unix.RLIMIT_MSGQUEUE: 0,
		unix.RLIMIT_NOFILE: mostFiles, unix.RLIMIT_NPROC: r.spec.Processes, unix.RLIMIT_FSIZE: r.spec.FileSize,
	}
	if r.spec.Data > 0 {
		set[unix.RLIMIT_DATA] = r.spec.Data
	}
	for what, most := range set {
		var was unix.Rlimit
		if err := unix.Getrlimit(what, &was); err != nil {
			return fmt.Errorf("limiting processes: %w", err)
		}
		most = min(most, was.Max)
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("limiting processes: %w", err)
		}
	}
	return nil
}

// run starts the step from a thread that has given up everything, and waits
// until no process is left.
func (r *runner) run() int {
	started := make(chan startup)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its goroutine
		started <- r.start()
	}()
	s := <-started
	if s.unready != nil {
		_ = r.talk.say(ready{Error: s.unready.Error(), Report: r.report}) // without it the launcher says so
		return 1
	}
	var end ended
	switch {
	case s.err != nil:
		end = ended{Code: -1, Error: s.err.Error()}
	case s.pid > 0:
		end = wait(s.pid)
	}
	if err := r.reap(); err != nil && end.Error == "" {
		end.Error = err.Error()
	}
	if r.talk.say(end) != nil {
		return 1
	}
	return 0
}

// startup is how the start of a step went.
type startup struct {
	pid     int
	unready error // a wall could not be made: the step was not started
	err     error // the step's own program could not be started
}

// start gives up everything, looks whether it is gone, tells the launcher
// what holds, and starts the step. It runs on a thread of its own.
func (r *runner) start() startup {
	if err := r.drop(); err != nil {
		return startup{unready: err}
	}
	if err := r.inspect(); err != nil {
		return startup{unready: err}
	}
	message := []*os.File{}
	if r.proxy != nil {
		message = append(message, r.proxy)
	}
	if err := r.talk.say(ready{Report: r.report}, message...); err != nil {
		return startup{unready: err}
	}
	if r.proxy != nil {
		_ = r.proxy.Close() // the launcher has its own
	}
	if len(r.spec.Command) == 0 {
		return startup{}
	}
	dir := Seen(Isolated, "").Source
	program, err := find(dir, r.spec.Command, r.spec.Env)
	if err != nil {
		return startup{err: err}
	}
	pid, err := syscall.ForkExec(program, r.spec.Command, &syscall.ProcAttr{
		Dir: dir, Env: append([]string{}, r.spec.Env...), Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return startup{err: fmt.Errorf("starting %q: %w", program, err)}
	}
	return startup{pid: pid}
}

// wait collects every process that ends, until it is the step's first.
func wait(pid int) ended {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return ended{Code: -1, Error: "waiting for the step: " + err.Error()}
		case got == pid && status.Signaled():
			return ended{Code: -1, Signal: int(status.Signal())}
		case got == pid && status.Exited():
			return ended{Code: status.ExitStatus()}
		}
	}
}

// reap ends what the step left behind, waits until it is gone, and gives the
// files back to the launcher where they have another owner than it can be.
func (r *runner) reap() error {
	for {
		if err := unix.Kill(-1, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("ending what the step left behind: %w", err)
		}
		_, err := unix.Wait4(-1, nil, 0, nil)
		if errors.Is(err, unix.ECHILD) {
			break
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("ending what the step left behind: %w", err)
		}
	}
	if r.spec.Account != delegated {
		return nil
	}
	at := Seen(Isolated, "")
	return errors.Join(own(at.Out, runnerID), own(at.Home, runnerID), own(at.Temp, runnerID))
}

// own gives a directory and all in it to an account. It opens nothing and
// follows nothing.
func own(dir string, id int) error {
	return filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, id, id)
	})
}
