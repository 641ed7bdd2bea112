//go:build !unix

package journal

import "os"

// lock does nothing where there are no advisory locks.
func lock(*os.File) error { return nil }

// syncDir does nothing where a directory cannot be synced.
func syncDir(string) error { return nil }
