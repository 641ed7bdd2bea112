package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// refusedHere are the ones that only this architecture has.
func refusedHere() []uint32 { return []uint32{unix.SYS_KEXEC_FILE_LOAD, unix.SYS_NFSSERVCTL} }
