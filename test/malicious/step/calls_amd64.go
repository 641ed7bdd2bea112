package main

// calls by their numbers on this architecture, as the standard library does
// not know the younger ones.
func calls() []call {
	const bad = ^uintptr(0)
	return append(younger(), []call{
		{name: "ptrace", number: 101, a: 0xffff}, {name: "process_vm_readv", number: 310, a: bad},
		{name: "process_vm_writev", number: 311, a: bad}, {name: "kcmp", number: 312, a: bad},
		{name: "unshare", number: 272, a: 0x10000000}, {name: "setns", number: 308, a: bad},
		{name: "mount", number: 165}, {name: "umount2", number: 166}, {name: "pivot_root", number: 155}, {name: "chroot", number: 161},
		{name: "kexec_load", number: 246, b: 17}, {name: "kexec_file_load", number: 320, a: bad},
		{name: "init_module", number: 175}, {name: "finit_module", number: 313, a: bad}, {name: "delete_module", number: 176},
		{name: "bpf", number: 321, a: 9999}, {name: "perf_event_open", number: 298}, {name: "userfaultfd", number: 323, a: bad},
		{name: "keyctl", number: 250, a: 0}, {name: "add_key", number: 248}, {name: "request_key", number: 249},
		{name: "open_by_handle_at", number: 304, a: bad}, {name: "iopl", number: 172, a: 3}, {name: "reboot", number: 169},
		{name: "clone with a namespace", number: 56, a: 0x10000000 | 0x200}, {name: "TIOCSTI", number: 16, a: bad, b: 0x5412},
		{name: "AF_NETLINK", number: 41, a: 16, b: 3}, {name: "AF_PACKET", number: 41, a: 17, b: 3}, {name: "AF_ALG", number: 41, a: 38, b: 5},
		{name: "AF_VSOCK", number: 41, a: 40, b: 1}, {name: "AF_BLUETOOTH", number: 41, a: 31, b: 3}, {name: "AF_KEY", number: 41, a: 15, b: 3},
	}...)
}
