//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refusedCalls are system calls that no build needs. Most require privileges
// that a step does not have; each is a part of the kernel that unprivileged
// attackers have exploited.
func refusedCalls() []uint32 {
	return append([]uint32{
		// other processes
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE,
		unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
		// namespaces and mounts of its own, or an escape from ours
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
		unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
		unix.SYS_MOUNT_SETATTR, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT,
		unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_ACCT, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
		// the kernel itself
		unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_BPF,
		unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER,
		unix.SYS_IO_URING_REGISTER, unix.SYS_SYSLOG, unix.SYS_REBOOT, unix.SYS_MEMFD_SECRET,
		// keys of the kernel, which know no namespaces
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
		// the machine's clock and names
		unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
		unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP,
	}, refusedHere()...)
}

// families are the kinds of sockets that a step may create.
func families() []uint32 { return []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6} }

// newNamespaces are the flags of clone that create a namespace.
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// Offsets in the kernel's input of a filter: struct seccomp_data.
const (
	dataCall = 0
	dataArch = 4
	dataArg0 = 16
	dataArg1 = 24
)

// foreignCall marks system calls of x32, the other ABI of amd64.
const foreignCall = 0x40000000

func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

func answer(k uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k}
}

// jump compares the loaded value; yes and no are how many instructions to
// skip.
func jump(test uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: k, Jt: yes, Jf: no}
}

func refuse(errno uint32) unix.SockFilter { return answer(unix.SECCOMP_RET_ERRNO | errno) }

// filter is the program that the kernel runs at each system call of a step,
// from top to bottom: what is not refused is allowed.
func filter() []unix.SockFilter {
	f := []unix.SockFilter{
		// Another architecture has other numbers, so the checks below would
		// be wrong.
		load(dataArch),
		jump(unix.BPF_JEQ, auditArch, 1, 0),
		answer(unix.SECCOMP_RET_KILL_PROCESS),
		load(dataCall),
		jump(unix.BPF_JGE, foreignCall, 0, 1),
		refuse(uint32(unix.ENOSYS)),
		// The flags of clone3 are in memory, which filters cannot read.
		// Without clone3, libraries use clone.
		jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1),
		refuse(uint32(unix.ENOSYS)),
	}
	for _, call := range refusedCalls() {
		f = append(f, jump(unix.BPF_JEQ, call, 0, 1), refuse(uint32(unix.EPERM)))
	}
	f = append(f,
		jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 4),
		load(dataArg0),
		jump(unix.BPF_JSET, newNamespaces, 0, 1),
		refuse(uint32(unix.EPERM)),
		answer(unix.SECCOMP_RET_ALLOW),
		// No program may type into another's terminal.
		jump(unix.BPF_JEQ, unix.SYS_IOCTL, 0, 5),
		load(dataArg1),
		jump(unix.BPF_JEQ, unix.TIOCSTI, 1, 0),
		jump(unix.BPF_JEQ, unix.TIOCLINUX, 0, 1),
		refuse(uint32(unix.EPERM)),
		answer(unix.SECCOMP_RET_ALLOW),
		jump(unix.BPF_JEQ, unix.SYS_SOCKET, 0, uint8(len(families())+2)),
		load(dataArg0),
	)
	for i, family := range families() {
		f = append(f, jump(unix.BPF_JEQ, family, uint8(len(families())-i), 0))
	}
	return append(f, refuse(uint32(unix.EAFNOSUPPORT)), answer(unix.SECCOMP_RET_ALLOW))
}

// installFilter installs the filter for the calling thread and all its children,
// permanently.
func installFilter() error {
	f := filter()
	p := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&p)))
	runtime.KeepAlive(f)
	if errno != 0 {
		return fmt.Errorf("filtering system calls: %w", errno)
	}
	return nil
}
