package sandbox

import "syscall"

// changed is the time of the last change of any kind.
func changed(st *syscall.Stat_t) int64 { return st.Ctim.Nano() }
