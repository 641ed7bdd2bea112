//go:build !unix

package sign

import "os"

// pipe makes what comes next to one: no regular file.
func pipe(path string) error { return os.Mkdir(path, 0o700) }
