package main

// calls by their numbers on this architecture.
func calls() []call {
	const bad = ^uintptr(0)
	return append(younger(), []call{
		{name: "ptrace", number: 117, a: 0xffff}, {name: "process_vm_readv", number: 270, a: bad},
		{name: "process_vm_writev", number: 271, a: bad}, {name: "unshare", number: 97, a: 0x10000000},
		{name: "setns", number: 268, a: bad}, {name: "mount", number: 40}, {name: "umount2", number: 39}, {name: "chroot", number: 51},
		{name: "kexec_load", number: 104, b: 17}, {name: "init_module", number: 105}, {name: "bpf", number: 280, a: 9999},
		{name: "perf_event_open", number: 241}, {name: "userfaultfd", number: 282, a: bad}, {name: "keyctl", number: 219},
		{name: "AF_NETLINK", number: 198, a: 16, b: 3}, {name: "AF_PACKET", number: 198, a: 17, b: 3}, {name: "AF_ALG", number: 198, a: 38, b: 5},
		{name: "AF_VSOCK", number: 198, a: 40, b: 1},
	}...)
}
