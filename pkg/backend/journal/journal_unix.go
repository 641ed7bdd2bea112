//go:build unix

package journal

import "os"

// syncDir makes the name of a new file durable.
func syncDir(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
