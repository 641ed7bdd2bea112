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

// Serve runs this process as the runner of one step, if it was started as
// one, and returns the exit status. It is the first process of the step's
// process namespace: when it ends, the kernel ends all others.
func Serve() (code int, ok bool) {
	if os.Args[0] != runnerName || os.Getenv(runnerEnv) == "" {
		return 0, false
	}
	if unix.CloseRange(talkFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) != nil {
		return 1, true // otherwise the step would inherit the files of our launcher's parent
	}
	t, err := openTalk(os.NewFile(talkFD, "launcher"))
	if err != nil {
		return 1, true
	}
	// Signals from the step have no effect, and its processes have the
	// kernel's defaults: an ignored signal would be inherited.
	signal.Notify(make(chan os.Signal, 1))
	var s spec
	if _, err := t.receive(&s); err != nil {
		return 1, true
	}
	r := &runner{spec: s, talk: t}
	if err := r.build(); err != nil {
		_ = t.send(ready{Error: err.Error(), Report: r.report}) // if this fails, the launcher reports a missing answer
		return 1, true
	}
	done := make(chan int, 2)
	go func() { done <- r.run() }()
	go func() {
		_, _ = t.receive(&struct{}{}) // no message follows: this is the launcher's end, and so ours
		for end := time.Now().Add(giveBack); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			_ = unix.Kill(-1, unix.SIGKILL) // there may be none yet, or none left
		}
		done <- 1
	}()
	return <-done, true
}

type runner struct {
	spec   spec
	talk   talk
	report Report
	proxy  *os.File // the listener inside, for the launcher
}

// build sets up the isolation that a process can give itself, from the
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

// become changes to the runner's account, if it did not start with it.
func (r *runner) become() error {
	if r.spec.Account != delegated {
		return nil
	}
	if err := syscall.Setgroups([]int{}); err != nil {
		return fmt.Errorf("dropping supplementary groups: %w", err)
	}
	if err := syscall.Setresgid(runnerID, runnerID, runnerID); err != nil {
		return fmt.Errorf("changing to the runner's group: %w", err)
	}
	if err := syscall.Setresuid(runnerID, runnerID, runnerID); err != nil {
		return fmt.Errorf("changing to the runner's account: %w", err)
	}
	return nil
}

// network leaves the new network namespace empty; for a step with declared
// hosts it enables loopback and sends the listener on it to the launcher,
// which answers from outside.
func (r *runner) network() error {
	if !r.spec.Proxied {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening the step's network: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // only used for the ioctl
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

// mostFiles limits the open files of a process of a step.
const mostFiles = 4096

// limits limits each process. The total is limited by control groups.
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

// run starts the step from a thread without privileges, and waits until no
// process is left.
func (r *runner) run() int {
	started := make(chan startup)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its goroutine
		started <- r.start()
	}()
	s := <-started
	if s.unready != nil {
		_ = r.talk.send(ready{Error: s.unready.Error(), Report: r.report}) // if this fails, the launcher reports a missing answer
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
	if r.talk.send(end) != nil {
		return 1
	}
	return 0
}

// startup is the result of starting a step.
type startup struct {
	pid     int
	unready error // isolation failed: the step was not started
	err     error // the step's program could not be started
}

// start drops all privileges, checks that they are gone, reports to the
// launcher, and starts the step. It runs on its own thread.
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
	if err := r.talk.send(ready{Report: r.report}, message...); err != nil {
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

// wait collects every process that ends, until the step's first process ends.
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

// reap kills the remaining processes, waits for their end, and returns the
// files to the launcher's account if needed.
func (r *runner) reap() error {
	for {
		if err := unix.Kill(-1, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("ending the step's remaining processes: %w", err)
		}
		_, err := unix.Wait4(-1, nil, 0, nil)
		if errors.Is(err, unix.ECHILD) {
			break
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("ending the step's remaining processes: %w", err)
		}
	}
	if r.spec.Account != delegated {
		return nil
	}
	at := Seen(Isolated, "")
	return errors.Join(chownAll(at.Out, runnerID), chownAll(at.Home, runnerID), chownAll(at.Temp, runnerID))
}

// chownAll changes the owner of a directory and its contents. It opens no file and
// follows no link.
func chownAll(dir string, id int) error {
	return filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, id, id)
	})
}
