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

// securebits say for good that root is an account like any other: nobody
// gains capabilities by becoming it, or keeps them by ceasing to be.
const securebits = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<5 | 1<<6 | 1<<7 // noroot, no fixup, ambient off; each locked

// drop takes from the calling thread everything that a step does not have. The
// order is forced: each line needs what a later one gives up.
func (r *runner) drop() error {
	// Whoever may not be dumped may not be looked into, not even under the
	// same account: the step shall find nothing in its runner.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hiding the runner's memory: %w", err)
	}
	for c := uintptr(0); c <= 63; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) { // there are no more of them
			break
		}
		if err != nil {
			return fmt.Errorf("giving up capability %d: %w", c, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, securebits, 0, 0, 0); err != nil {
		return fmt.Errorf("giving up root: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("giving up capabilities: %w", err)
	}
	if r.spec.Account != shared {
		// Of this thread alone, so these are the kernel's calls, not Go's.
		if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
			return fmt.Errorf("leaving groups: %w", errno)
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, stepID, stepID, stepID); errno != 0 {
			return fmt.Errorf("taking the step's group: %w", errno)
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, stepID, stepID, stepID); errno != 0 {
			return fmt.Errorf("taking the step's account: %w", errno)
		}
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if _, _, errno := unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&none[0])), 0); errno != 0 {
		return fmt.Errorf("giving up capabilities: %w", errno)
	}
	unix.Umask(0o022)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("giving up new privileges: %w", err)
	}
	return install()
}

// inspect asks the kernel what the calling thread really has left, and takes
// only that into the report.
func (r *runner) inspect() error {
	raw, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return fmt.Errorf("looking at what is left: %w", err)
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
		{NoCapabilities, none, "capabilities are left"},
		{NoNewPrivileges, said["NoNewPrivs"] == "1", "privileges can be gained"},
		{CallsFiltered, said["Seccomp"] == "2", "no filter of system calls is there"},
		{OwnAccount, r.spec.Account != shared && said["Uid"] == id && said["Gid"] == id && said["Groups"] == "", "the step has the account of its launcher"},
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
