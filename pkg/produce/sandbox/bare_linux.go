package sandbox

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// start runs cmd to its end. The process is made by a thread that has given up
// gaining privileges, which its children inherit and nothing can undo; the
// thread is ours until the end, as its death would be the parent's death to
// the kernel, and is thrown away then.
func start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:    true, // no controlling terminal, and a process group of its own
		Pdeathsig: syscall.SIGKILL,
	}
	cmd.Cancel = func() error { return killAll(cmd) }
	// What our own parent gave us is not for the step.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil && !errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("keeping our files to ourselves: %w", err)
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			done <- fmt.Errorf("giving up privileges: %w", err)
			return
		}
		err := cmd.Run()
		if cmd.Process != nil {
			_ = killAll(cmd)
		}
		done <- err
	}()
	return <-done
}

// killAll ends the command and its process group.
func killAll(cmd *exec.Cmd) error {
	err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
