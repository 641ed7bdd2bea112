package workspace

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// removeAttributes removes the extended attributes that whoever wrote a file
// could give it.
func removeAttributes(path string) error {
	names := make([]byte, 64<<10) // as many as Linux lists
	n, err := unix.Llistxattr(path, names)
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.Trim(string(names[:n]), "\x00"), "\x00") {
		if !strings.HasPrefix(name, "user.") {
			continue // the others are the system's
		}
		if err := unix.Lremovexattr(path, name); err != nil {
			return err
		}
	}
	return nil
}
