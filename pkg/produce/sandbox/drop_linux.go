//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// securebits permanently make root an ordinary account: becoming root gains
// no capabilities, and leaving it keeps none.
const securebits = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<5 | 1<<6 | 1<<7 // noroot, no fixup, ambient off; each locked

// drop removes all privileges of the calling thread that a step must not
// have. The order matters: each line needs privileges that a later one drops.
func (r *runner) drop() error {
	// A process that is not dumpable cannot be inspected, not even by the
	// same account: the step must find nothing in its runner.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("protecting the runner's memory: %w", err)
	}
	for c := uintptr(0); c <= 63; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) { // the last one
			break
		}
		if err != nil {
			return fmt.Errorf("dropping capability %d: %w", c, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, securebits, 0, 0, 0); err != nil {
		return fmt.Errorf("setting the secure bits: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clearing ambient capabilities: %w", err)
	}
	if r.spec.Account != shared {
		// Go's functions would change all threads.
		if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
			return fmt.Errorf("dropping supplementary groups: %w", errno)
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, stepID, stepID, stepID); errno != 0 {
			return fmt.Errorf("changing to the step's group: %w", errno)
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, stepID, stepID, stepID); errno != 0 {
			return fmt.Errorf("changing to the step's account: %w", errno)
		}
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if _, _, errno := unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&none[0])), 0); errno != 0 {
		return fmt.Errorf("dropping capabilities: %w", errno)
	}
	unix.Umask(0o022)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("disabling new privileges: %w", err)
	}
	return installFilter()
}

// inspect asks the kernel for the remaining privileges of the calling thread,
// and reports only what it confirms.
func (r *runner) inspect() error {
	raw, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return fmt.Errorf("reading the remaining privileges: %w", err)
	}
	said := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		name, value, _ := strings.Cut(line, ":")
		said[name] = strings.TrimSpace(value)
	}
	none := true
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		n, err := strconv.ParseUint(said[set], 16, 64)
		none = none && err == nil && n == 0
	}
	id := strings.TrimSpace(strings.Repeat(strconv.Itoa(stepID)+"\t", 4))
	for _, look := range []struct {
		g    Guarantee
		had  bool
		what string
	}{
		{NoCapabilities, none, "the step has capabilities"},
		{NoNewPrivileges, said["NoNewPrivs"] == "1", "programs of the step can gain privileges"},
		{CallsFiltered, said["Seccomp"] == "2", "system calls are not filtered"},
		{OwnAccount, r.spec.Account != shared && said["Uid"] == id && said["Gid"] == id && said["Groups"] == "", "the step runs under its launcher's account"},
		{TreeEnds, os.Getpid() == 1, "the runner is not the first process"},
	} {
		if look.had {
			r.report.have(look.g)
		} else {
			r.report.lack(look.g, look.what)
		}
	}
	return nil
}
