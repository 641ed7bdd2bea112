package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// writeFile writes a verdict to a file, whole or not at all; to what is no file,
// as a pipe or a device, directly.
func writeFile(path string, write func(io.Writer) error) error {
	straight, err := direct(path)
	if err != nil {
		return err
	}
	if straight {
		return writing(path, pour(path, write))
	}
	return writing(path, replace(path, write))
}

// direct reports whether what is at path cannot be replaced by a file: a pipe, a
// device, or an open file of this process. It refuses what must not be: a
// directory, and a symlink, for its target was not named.
func direct(path string) (bool, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, writing(path, err)
	}
	link := info.Mode()&fs.ModeSymlink != 0
	if link {
		if info, err = os.Stat(path); err != nil {
			return false, verdict.Wrap(verdict.Usage, path, err)
		}
	}
	switch {
	case info.IsDir():
		return false, verdict.Refuse(verdict.Usage, path, "it is a directory; name a file")
	case !info.Mode().IsRegular() || link && opened(path):
		return true, nil
	case link:
		return false, verdict.Refuse(verdict.Usage, path, "it is a symlink; name the file that it leads to")
	}
	return false, nil
}

// opened reports whether path names an open file of this process, as the shell
// hands it on.
func opened(path string) bool {
	path = filepath.Clean(path)
	for _, dir := range []string{"/dev/", "/proc/self/fd/"} {
		if strings.HasPrefix(path, dir) {
			return true
		}
	}
	return false
}

// pour writes into what is there.
func pour(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// replace puts a file in the place of the one that is there.
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

// writing tells a disk that fails from a directory that was never there.
func writing(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return verdict.Refuse(verdict.Usage, path, "there is no directory %q to write it to", filepath.Dir(path))
	}
	return verdict.Wrap(verdict.PlaceDown, path, err)
}

// WriteFile writes what a command made to a file that was named on the command
// line, whole or not at all; to what is no file directly.
func WriteFile(path string, raw []byte) error {
	return writeFile(path, func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	})
}
