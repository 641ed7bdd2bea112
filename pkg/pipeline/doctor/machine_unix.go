//go:build linux || darwin

package doctor

import "golang.org/x/sys/unix"

// freeBytes is the free disk space of a directory.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:gosec,unconvert // no disk is that large; its width differs between systems
}
