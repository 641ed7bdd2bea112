//go:build unix

package store

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// access asks whether a directory may be written.
func access(dir string) error {
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("writing in %q: %w", dir, err)
	}
	return nil
}
