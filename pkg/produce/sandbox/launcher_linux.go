//go:build amd64 || arm64

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// namespaces are the separate namespaces of an isolated step.
const namespaces = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID |
	syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWCGROUP

// probe sets up the isolation without a step.
func probe(ctx context.Context, mode Mode) (Report, error) {
	scratch, err := os.MkdirTemp("", "waybill-probe-")
	if err != nil {
		return Report{}, fmt.Errorf("probing isolation: %w", err)
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // it is empty
	if err := Prepare(scratch); err != nil {
		return Report{}, err
	}
	return isolated(ctx, mode, Step{Scratch: scratch}, NewLog(nil, nil))
}

// launcher is the outside view of one runner.
type launcher struct {
	mode    Mode
	step    Step
	log     *Log
	account account
	inside  inside
	talk    talk
	group   *group
	report  Report
}

// isolated runs a step with isolation.
func isolated(ctx context.Context, mode Mode, s Step, log *Log) (Report, error) {
	if os.Getenv(runnerEnv) != "" {
		return Report{}, &ModeError{Mode: mode, Reason: "this program does not call sandbox.Serve, so it has no runner"}
	}
	l := &launcher{mode: mode, step: s, log: log, account: shared}
	if mode == Isolated {
		var err error
		if l.account, err = separate(); err != nil {
			return Report{}, &ModeError{Mode: mode, Reason: err.Error()}
		}
	}
	s.Limits.fill(s.Scratch)
	l.step.Limits = s.Limits
	var err error
	if l.inside, err = insideOf(s); err != nil {
		return Report{}, &ModeError{Mode: mode, Reason: err.Error()}
	}
	near, far, err := newTalk()
	if err != nil {
		return Report{}, &ModeError{Mode: mode, Reason: err.Error()}
	}
	defer near.conn.Close()
	l.talk = near
	cmd, err := l.command(far)
	if err != nil {
		_ = far.Close() // nothing was sent through it
		return Report{}, &ModeError{Mode: mode, Reason: err.Error()}
	}
	return l.launch(ctx, cmd)
}

// separate finds two accounts besides our own.
func separate() (account, error) {
	if os.Geteuid() == 0 {
		return pair, nil
	}
	if _, err := delegation(); err != nil {
		return "", fmt.Errorf("no second account for the step: %w", err)
	}
	return delegated, nil
}

// command prepares the runner: this program, with nothing of ours but the
// connection and, as root, the mounts that only root may open.
func (l *launcher) command(far *os.File) (*exec.Cmd, error) {
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{runnerName, runnerArg}, Dir: "/",
		Env:    []string{runnerEnv + "=1", "GOMAXPROCS=2", "GOTRACEBACK=none"},
		Stdout: l.log, Stderr: l.log,
		ExtraFiles: []*os.File{far},
	}
	attr := &syscall.SysProcAttr{Setsid: true, Cloneflags: namespaces}
	cmd.SysProcAttr = attr
	switch l.account {
	case pair:
		first, err := ownPair(l.step)
		if err != nil {
			return nil, err
		}
		attr.UidMappings = mapped(runnerID, first, stepID, first+1)
		attr.GidMappings = mapped(runnerID, first, stepID, first+1)
		attr.GidMappingsEnableSetgroups = true
		attr.Credential = &syscall.Credential{Uid: runnerID, Gid: runnerID}
		for _, t := range l.inside.Trees {
			fd, err := openTree(t)
			if err != nil {
				closeAll(cmd.ExtraFiles[1:])
				return nil, err
			}
			cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(fd), t.Source))
		}
	case delegated:
		if err := readable(l.step); err != nil {
			return nil, err
		}
		attr.AmbientCaps = allCapabilities() // the maps are written later, by a privileged program
	case shared:
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: stepID, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: stepID, HostID: os.Getgid(), Size: 1}}
		attr.AmbientCaps = allCapabilities()
	}
	return cmd, nil
}

// launch starts the runner, receives its messages, and waits for its end: at
// that point the kernel has ended every process of the step.
func (l *launcher) launch(ctx context.Context, cmd *exec.Cmd) (Report, error) {
	err := cmd.Start()
	closeAll(cmd.ExtraFiles)
	if err != nil {
		return Report{}, &ModeError{Mode: l.mode, Reason: fmt.Sprintf("this account cannot create namespaces: %v", err)}
	}
	kill := l.killer(cmd.Process)
	stop := context.AfterFunc(ctx, kill)
	end, proxied, err := l.converse(ctx, cmd.Process.Pid, kill)
	if err != nil {
		kill()
	}
	waited := cmd.Wait()
	stop()
	_ = l.talk.conn.Close() // no more messages
	if proxied != nil {
		proxied(&l.report)
	}
	over := l.group.end()
	l.report.Mode = l.mode
	if err != nil {
		return l.report, err
	}
	if over != nil {
		return l.report, over
	}
	return l.report, outcome(end, waited)
}

// killer ends the runner and with it the step. A runner that has to return
// ownership of files is first asked to end, by closing the connection, and
// gets some time for it.
func (l *launcher) killer(p *os.Process) func() {
	hard := func() { _ = p.Kill() } // it may have ended
	if l.account != delegated {
		return hard
	}
	return func() {
		if l.talk.conn.CloseWrite() != nil {
			hard()
			return
		}
		time.AfterFunc(giveBack, hard)
	}
}

// giveBack is how long a runner may take to return ownership of files.
const giveBack = 10 * time.Second

// converse instructs the runner, judges its report on the isolation, and
// receives how the step ended. asked is not nil if there was a proxy.
func (l *launcher) converse(ctx context.Context, pid int, kill func()) (end ended, asked func(*Report), err error) {
	unfit := func(err error) (ended, func(*Report), error) {
		if cause := context.Cause(ctx); cause != nil {
			return ended{}, nil, cause
		}
		return ended{}, nil, &ModeError{Mode: l.mode, Reason: err.Error()}
	}
	if l.account == delegated {
		if err := delegate(pid); err != nil {
			return unfit(err)
		}
	}
	l.group = newGroup(l.step.Limits, pid)
	if err := l.talk.send(l.spec()); err != nil {
		return unfit(fmt.Errorf("instructing the runner: %w", err))
	}
	listener, err := l.ready()
	if err != nil {
		return unfit(err)
	}
	if listener != nil {
		if asked, err = l.serve(ctx, listener); err != nil {
			return unfit(err)
		}
	}
	watched := watch(ctx, l.step, pid, kill)
	_, err = l.talk.receive(&end)
	over := watched()
	switch {
	case over != nil:
		return end, asked, over
	case context.Cause(ctx) != nil:
		return end, asked, context.Cause(ctx)
	case err != nil && l.group.exceeded() == nil:
		return end, asked, fmt.Errorf("the runner ended before its step: %w", err)
	}
	return end, asked, nil
}

// ready receives the runner's report, and refuses to continue without an
// essential guarantee.
func (l *launcher) ready() (*os.File, error) {
	var r ready
	listener, err := l.talk.receive(&r)
	if err != nil {
		return nil, errors.New("the runner did not start: the program must call sandbox.Serve first in main, and be readable for every account")
	}
	if r.Error != "" {
		return nil, errors.New(r.Error)
	}
	l.report = r.Report
	l.report.have(DiskLimited, ProcessesLimited)
	l.group.tell(&l.report)
	l.report.How = append(l.report.How, "accounts: "+string(l.account))
	if l.step.Root != "" {
		l.report.How = append(l.report.How, "programs: from the step's own root, none of the machine's")
	}
	if missing := l.report.missing(l.mode); len(missing) > 0 {
		return nil, fmt.Errorf("missing guarantees: %v", missing)
	}
	return listener, nil
}

// serve answers the step's listener with a proxy, until the step has ended.
func (l *launcher) serve(ctx context.Context, f *os.File) (asked func(*Report), err error) {
	defer f.Close()
	listener, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("opening the step's listener: %w", err)
	}
	p := newProxy(l.step.Network)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.serve(ctx, listener)
	}()
	return func(r *Report) {
		cancel()
		<-done
		p.tell(r)
	}, nil
}

// baseData is what every process, including the runner, has mapped at its
// start without using it: a limit of one process counts that, too.
const baseData = 256 << 20

func (l *launcher) spec() spec {
	s := spec{
		inside: l.inside, Command: l.step.Command, Env: l.step.Env, Account: l.account,
		Processes: uint64(l.step.Limits.Processes), FileSize: uint64(l.step.Limits.Disk),
	}
	if l.group.has("pids") {
		s.Processes = 2*s.Processes + runnerThreads // the group's limit applies first, and is counted
	}
	if !l.group.has("memory") {
		s.Data = uint64(l.step.Limits.Memory) + baseData
	}
	if len(l.step.Network) > 0 {
		s.Proxied = true
		for _, name := range []string{"HTTPS_PROXY", "https_proxy"} {
			s.Env = append(s.Env[:len(s.Env):len(s.Env)], name+"=http://"+proxyAddress)
		}
	}
	return s
}

// exitError is how a failed step ended.
type exitError struct{ ended }

func (e *exitError) Error() string {
	if e.Signal != 0 {
		return "signal: " + unix.Signal(e.Signal).String()
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// ExitCode is -1 if a signal ended the step.
func (e *exitError) ExitCode() int { return e.Code }

func outcome(end ended, waited error) error {
	switch {
	case end.Error != "":
		return errors.New(end.Error)
	case end.Code != 0 || end.Signal != 0:
		return &exitError{end}
	case waited != nil:
		return fmt.Errorf("the runner: %w", waited)
	}
	return nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // the runner has its own copies
	}
}
