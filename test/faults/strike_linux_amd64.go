package faults

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// Strike hits a command at one of its system calls: of those that can leave a
// trace, which are writes, to files and to sockets, and whatever makes, names
// and removes files. They are counted over all threads of the command, which is
// more than strace does: its when=N counts those of each thread by themselves.
// Commands that the command runs are not struck.
type Strike struct {
	At   int           // which of them, from 1; 0 is none
	With syscall.Errno // what the call answers, and does not act; 0: all is killed before it acts
	// Short is a call that writes half of what it is given. With is then what the next
	// call answers that writes the same file; 0 is none.
	Short bool
	// Only are the calls that count; empty counts all. A call on a socket is
	// "socket write", any other one "write".
	Only []string
}

// Struck is how it ended.
type Struck struct {
	Calls  []string // that counted, in their order: what was called, and on what
	Code   int      // with which the command ended, -1 if it was killed
	Killed bool
}

// Run runs the command to its end. Its output must go to files, if anywhere.
func (s Strike) Run(cmd *exec.Cmd) (Struck, error) {
	type result struct {
		Struck
		err error
	}
	done := make(chan result)
	go func() { // a tracer is one thread
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		t := &tracer{Strike: s, known: map[int]bool{}, failing: map[int]bool{}, traces: traces()}
		err := t.run(cmd)
		done <- result{t.Struck, err}
	}()
	r := <-done
	return r.Struck, r.err
}

type tracer struct {
	Strike
	Struck
	pid     int
	known   map[int]bool // threads that were seen
	failing map[int]bool // threads in a call that is to fail
	rest    string       // the call that wrote a part
	traces  map[uint64]trace
}

func (t *tracer) run(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	t.pid = cmd.Process.Pid
	t.known[t.pid] = true
	var status syscall.WaitStatus
	if _, err := wait(t.pid, &status); err != nil {
		return err
	}
	err := syscall.PtraceSetOptions(t.pid, syscall.PTRACE_O_TRACESYSGOOD|syscall.PTRACE_O_TRACECLONE|exitKill)
	for thread := t.pid; err == nil; {
		t.resume(thread, status)
		if thread, err = wait(-1, &status); err != nil || thread != t.pid {
			continue
		}
		if status.Exited() || status.Signaled() {
			t.Code, t.Killed = status.ExitStatus(), status.Signaled()
			return cmd.Process.Release()
		}
	}
	return errors.Join(err, syscall.Kill(t.pid, syscall.SIGKILL))
}

// wait waits for what this thread traces, and for nobody else's children.
func wait(pid int, status *syscall.WaitStatus) (int, error) {
	for {
		thread, err := syscall.Wait4(pid, status, syscall.WALL|syscall.WNOTHREAD, nil)
		if err != syscall.EINTR {
			return thread, err
		}
	}
}

// resume looks at why a thread stopped, and lets it go on to its next call.
func (t *tracer) resume(thread int, status syscall.WaitStatus) {
	if !status.Stopped() {
		return // it is gone
	}
	signal := status.StopSignal()
	switch {
	case signal == syscall.SIGTRAP|0x80:
		t.call(thread)
		signal = 0
	case signal == syscall.SIGTRAP, signal == syscall.SIGSTOP && !t.known[thread]:
		signal = 0
	}
	t.known[thread] = true
	_ = syscall.PtraceSyscall(thread, int(signal)) // it fails for who was killed
}

// call is a thread at the entry or the exit of a call.
func (t *tracer) call(thread int) {
	var regs syscall.PtraceRegs
	if syscall.PtraceGetRegs(thread, &regs) != nil {
		return
	}
	if t.failing[thread] {
		delete(t.failing, thread)
		regs.Rax = uint64(-int64(t.With)) //nolint:gosec // that is how the kernel says it
		_ = syscall.PtraceSetRegs(thread, &regs)
		return
	}
	if int64(regs.Rax) != -int64(syscall.ENOSYS) { //nolint:gosec // an entry has that, see ptrace(2)
		return
	}
	name := t.counts(thread, regs)
	if name == "" {
		return
	}
	t.Calls = append(t.Calls, name)
	hit, rest := len(t.Calls) == t.At, t.rest == name
	switch {
	case hit && t.Short:
		size := &regs.Rdx
		if strings.HasPrefix(name, "copy_file_range ") {
			size = &regs.R8
		}
		*size = (*size + 1) / 2
		t.rest = name
	case rest && t.With == 0 || !hit && !rest:
		return
	case t.With == 0:
		_ = syscall.Kill(t.pid, syscall.SIGKILL)
		return
	default:
		t.failing[thread] = true
		t.rest = ""
		regs.Orig_rax = ^uint64(0) // no call at all
	}
	_ = syscall.PtraceSetRegs(thread, &regs)
}

// exitKill ends the traced with the tracer, and unnamed opens a file without a
// name, which is on the disk; package syscall does not have them.
const (
	exitKill = 0x100000
	unnamed  = 0x400000
)

// trace is a call that can leave one: its name, and the argument, counted from
// 0, that says on what: a descriptor, or a path below the one before it.
type trace struct {
	name string
	fd   int
	path int // 0 for none: the first argument of a call with a path is a directory
}

// traces are the calls that can leave a trace, by the kernel's numbers.
func traces() map[uint64]trace {
	return map[uint64]trace{
		syscall.SYS_WRITE: {"write", 0, 0}, syscall.SYS_PWRITE64: {"pwrite", 0, 0}, syscall.SYS_WRITEV: {"writev", 0, 0},
		syscall.SYS_SENDTO: {"sendto", 0, 0}, syscall.SYS_SENDMSG: {"sendmsg", 0, 0}, syscall.SYS_CONNECT: {"connect", 0, 0},
		syscall.SYS_SENDFILE: {"sendfile", 0, 0}, 326: {"copy_file_range", 2, 0}, syscall.SYS_FALLOCATE: {"fallocate", 0, 0},
		syscall.SYS_FSYNC: {"fsync", 0, 0}, syscall.SYS_FDATASYNC: {"fsync", 0, 0}, syscall.SYS_FTRUNCATE: {"ftruncate", 0, 0},
		syscall.SYS_FCHMOD: {"chmod", 0, 0}, syscall.SYS_FCHOWN: {"chown", 0, 0},
		syscall.SYS_OPENAT: {"openat", 0, 1}, syscall.SYS_MKDIRAT: {"mkdir", 0, 1}, syscall.SYS_UNLINKAT: {"unlink", 0, 1},
		syscall.SYS_FCHMODAT: {"chmod", 0, 1}, syscall.SYS_FCHOWNAT: {"chown", 0, 1}, syscall.SYS_SYMLINKAT: {"symlink", 1, 2},
		syscall.SYS_RENAMEAT: {"rename", 2, 3}, 316: {"rename", 2, 3}, syscall.SYS_LINKAT: {"link", 2, 3},
	}
}

// counts names a call that can leave a trace, and what it is on.
func (t *tracer) counts(thread int, regs syscall.PtraceRegs) string {
	call, known := t.traces[regs.Orig_rax]
	if !known || call.name == "openat" && regs.Rdx&(syscall.O_CREAT|syscall.O_TRUNC|unnamed) == 0 {
		return ""
	}
	args := [...]uint64{regs.Rdi, regs.Rsi, regs.Rdx, regs.R10}
	fd := int32(args[call.fd]) //nolint:gosec // a descriptor, or AT_FDCWD
	on, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.pid, fd))
	name := call.name
	switch {
	case call.path > 0:
		if on = filepath.Join(on, text(thread, args[call.path])); name == "openat" {
			name = "create"
		}
	case strings.HasPrefix(on, "socket:"):
		name, on = "socket "+name, ""
	case fd <= 2, !strings.HasPrefix(on, "/"), strings.HasPrefix(on, "/dev/"):
		return "" // what people read, and pipes
	}
	if strings.HasPrefix(on, "/sys/") || strings.HasPrefix(on, "/proc/") {
		return "" // the kernel, not a disk
	}
	if len(t.Only) > 0 && !slices.Contains(t.Only, name) {
		return ""
	}
	return strings.TrimSpace(name + " " + on)
}

// text reads a string of a thread that stopped.
func text(thread int, at uint64) string {
	raw := make([]byte, 4096)
	n, _ := syscall.PtracePeekData(thread, uintptr(at), raw)
	end := bytes.IndexByte(raw[:n], 0)
	return string(raw[:max(end, 0)])
}
