package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// printToken prints what it finds, so that whoever reads the log has it.
func printToken() error {
	raw, err := os.ReadFile(os.Getenv("TOKEN"))
	if err != nil {
		return err
	}
	fmt.Printf("the token is %s\n", raw)
	return nil
}

func pid() int {
	n, err := strconv.Atoi(os.Getenv("PID"))
	if err != nil {
		return 1 << 30
	}
	return n
}

func readMemory() error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid()))
	if err == nil {
		return f.Close()
	}
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, syscall.PTRACE_ATTACH, uintptr(pid()), 0, 0, 0, 0); errno != 0 {
		return errors.Join(err, errno)
	}
	return nil
}

// readRunner looks into the one foreign process that must be near.
func readRunner() error {
	return all([]string{"environ", "mem", "maps", "fd/3", "root/etc", "cwd"}, func(name string) error {
		f, err := os.Open("/proc/1/" + name)
		if err != nil {
			return err
		}
		return f.Close()
	})
}

// signalProcess signals the control plane, and ends the runner if it can.
func signalProcess() error {
	if err := syscall.Kill(pid(), 0); err != nil {
		return err
	}
	return nil
}

// throughProc looks for the token through the roots of all processes there are.
func throughProc() error {
	roots, err := filepath.Glob("/proc/[0-9]*/root")
	if err != nil {
		return err
	}
	return all(append(roots, "/../../..", "/proc/self/cwd/../../../.."), func(root string) error {
		_, err := os.ReadFile(root + os.Getenv("TOKEN"))
		return err
	})
}

// outlive leaves a process in a session of its own, twice removed, which goes
// on changing the output.
func outlive() error {
	if os.Getenv("STAGE") == "daemon" {
		end := time.Now().Add(5 * time.Second) // where it is not stopped, a test must be
		for i := 0; time.Now().Before(end); i++ {
			f, err := os.OpenFile(output(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
			if err == nil {
				fmt.Fprintln(f, "changed", i)
				_ = f.Close() // there is a next time
			}
			_ = write(filepath.Join("..", "home", "alive"))
		}
		return nil
	}
	next := "fork"
	if os.Getenv("STAGE") == "fork" {
		next = "daemon"
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "STAGE="+next)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	if next == "fork" {
		return cmd.Wait()
	}
	for { // until it is at work
		if _, err := os.Stat(filepath.Join("..", "home", "alive")); err == nil {
			os.Exit(0)
		}
	}
}

// forkBomb makes processes until none can be made.
func forkBomb() error {
	for i := range 100_000 {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = []string{"ACT=sleep"}
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("after %d processes: %w", i, err)
		}
	}
	return nil
}

func sleep() error {
	time.Sleep(time.Hour)
	return nil
}

func leaveSocket() error {
	l, err := net.Listen("unix", output())
	if err != nil {
		return err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	return l.Close()
}
