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

// start runs cmd to its end. A thread that cannot gain privileges creates the
// process, and its children inherit that irreversibly. The thread must live
// until the end, because the kernel takes its end for the parent's death;
// then it is discarded.
func start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:    true, // no controlling terminal, and its own process group
		Pdeathsig: syscall.SIGKILL,
	}
	cmd.Cancel = func() error { return killAll(cmd) }
	// Files inherited from our parent are not for the step.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil && !errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("closing inherited files: %w", err)
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

// killAll kills the command and its process group.
func killAll(cmd *exec.Cmd) error {
	err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
