package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// namespaces are those that an isolated step has of its own.
const namespaces = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID |
	syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS

// insideID is what our own user and group are called inside. It is not 0: a
// process that is root nowhere loses, with exec, the capabilities that the
// maker of a user namespace has.
const insideID = 1000

// attributes are what the kernel is asked for.
func attributes(mode Mode) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Setsid:    true, // no controlling terminal, and a process group of its own
		Pdeathsig: syscall.SIGKILL,
	}
	if mode == Isolated {
		attr.Cloneflags = namespaces
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: insideID, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: insideID, HostID: os.Getgid(), Size: 1}}
	}
	return attr
}

// probe asks the kernel for an isolated process of a program that does not
// exist: if only the program is missing, all namespaces could be made.
func probe() error {
	cmd := &exec.Cmd{
		Path:        "/dev/null/no-such-program",
		Args:        []string{"probe"},
		Env:         []string{},
		SysProcAttr: attributes(Isolated),
	}
	err := cmd.Start()
	switch {
	case err == nil:
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return errors.New("the probe of isolation ran something")
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return fmt.Errorf("the kernel does not give this account namespaces of its own: %w", err)
}

// start runs cmd to its end. The process is made by a thread that has given up
// gaining privileges, which its children inherit and nothing can undo; the
// thread is ours until the end, as its death would be the parent's death to
// the kernel, and is thrown away then.
func start(cmd *exec.Cmd, mode Mode) error {
	cmd.SysProcAttr = attributes(mode)
	cmd.Cancel = func() error { return killAll(cmd) }
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			done <- fmt.Errorf("giving up privileges: %w", err)
			return
		}
		err := cmd.Run()
		if cmd.Process != nil {
			// An isolated command was the first process of its namespace:
			// with it the kernel ended all others. Else the group must do.
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
