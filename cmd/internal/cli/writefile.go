package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// writeFile writes a verdict to a file, whole or not at all. To a pipe or a device
// it writes directly.
func writeFile(path string, write func(io.Writer) error) error {
	straight, err := isStream(path)
	if err != nil {
		return err
	}
	if straight {
		return writeError(path, appendTo(path, write))
	}
	return writeError(path, replace(path, write))
}

// isStream reports whether path must be written to directly, because a file cannot
// replace it: a pipe, a device, or an open file of this process. It refuses a
// directory, and a symlink, because its target was not named.
func isStream(path string) (bool, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, writeError(path, err)
	}
	link := info.Mode()&fs.ModeSymlink != 0
	if link {
		if info, err = os.Stat(path); err != nil {
			return false, verdict.Wrap(verdict.Usage, path, err)
		}
	}
	switch {
	case info.IsDir():
		return false, verdict.Refuse(verdict.Usage, path, "a directory; name a file")
	case !info.Mode().IsRegular() || link && isOpenFile(path):
		return true, nil
	case link:
		return false, verdict.Refuse(verdict.Usage, path, "a symlink; name the file that it points to")
	}
	return false, nil
}

// isOpenFile reports whether path names an open file of this process, such as a shell
// passes for >(command).
func isOpenFile(path string) bool {
	path = filepath.Clean(path)
	return slices.ContainsFunc([]string{"/dev/", "/proc/self/fd/"}, func(dir string) bool { return strings.HasPrefix(path, dir) })
}

// appendTo appends to an existing pipe, device or open file.
func appendTo(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// replace writes a new file and renames it to path.
func replace(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".verdict-*")
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// writeError distinguishes a missing directory, which is wrong use, from a failing
// disk.
func writeError(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return verdict.Refuse(verdict.Usage, path, "there is no directory %q to write it to; create it first", filepath.Dir(path))
	}
	return verdict.Wrap(verdict.PlaceDown, path, err)
}

// WriteFile writes the output of a command to the file that the command line
// names, whole or not at all; to a pipe or a device directly.
func WriteFile(path string, raw []byte) error {
	return writeFile(path, func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	})
}
