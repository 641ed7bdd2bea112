package bench

import "syscall"

// Free is how much may still be written to the disk of a directory, in bytes, or
// zero where that is not known.
func Free(dir string) int64 {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0
	}
	return int64(st.Bavail) * st.Bsize
}
