// Command filler writes the files of one platform: pseudo-random bytes, the
// same for the same name on every machine.
package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := fill(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "filler:", err)
		os.Exit(1)
	}
}

// fill writes every file of sizes.txt whose name has the prefix.
func fill(prefix, dir string) error {
	sizes, err := os.ReadFile("sizes.txt")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(sizes)) {
		var name string
		var size int64
		if _, err := fmt.Sscan(line, &name, &size); err != nil {
			return err
		}
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if err := write(filepath.Join(dir, name), name, size); err != nil {
			return err
		}
	}
	return nil
}

func write(path, name string, size int64) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	var seed [32]byte
	if copy(seed[:], name) < len(name) {
		return fmt.Errorf("%q is too long to be a seed", name)
	}
	if _, err := io.CopyN(f, rand.NewChaCha8(seed), size); err != nil {
		return err
	}
	return f.Close()
}
