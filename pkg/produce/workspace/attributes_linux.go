package workspace

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// removeAttributes removes the extended attributes that an unprivileged
// writer can set.
func removeAttributes(path string) error {
	names := make([]byte, 64<<10) // the maximum that Linux lists
	n, err := unix.Llistxattr(path, names)
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.Trim(string(names[:n]), "\x00"), "\x00") {
		if !strings.HasPrefix(name, "user.") {
			continue // others belong to the system
		}
		if err := unix.Lremovexattr(path, name); err != nil {
			return err
		}
	}
	return nil
}
