package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Prepare creates the directories of a step in scratch: src for its input,
// out, home and tmp for its output.
func Prepare(scratch string) error {
	for _, name := range []string{"src", "out", "home", "tmp"} {
		if err := os.Mkdir(filepath.Join(scratch, name), 0o755); err != nil {
			return fmt.Errorf("making the step's directories: %w", err)
		}
	}
	return nil
}

// Remove removes a step's directories, including unreadable ones, however
// deep they are: a nested directory is moved to the top before it is emptied,
// so paths stay short and few files are open.
func Remove(ctx context.Context, scratch string) error {
	info, err := os.Lstat(scratch)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return os.Remove(scratch)
	}
	if err := os.Chmod(scratch, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(scratch)
	if err != nil {
		return err
	}
	err = removeFlat(ctx, root)
	if err := errors.Join(err, root.Close()); err != nil {
		return err
	}
	return os.Remove(scratch)
}

// removeFlat removes everything in a directory.
func removeFlat(ctx context.Context, root *os.Root) error {
	// Moved directories get names that do not exist there yet.
	prefix, moved := rand.Text(), 0
	empty := func(dir string) (left bool, err error) {
		f, err := root.Open(dir)
		if err != nil {
			return false, err
		}
		defer f.Close()
		for {
			entries, err := f.ReadDir(1024)
			for _, e := range entries {
				if err := ctx.Err(); err != nil {
					return false, err
				}
				if dir == "." && strings.HasPrefix(e.Name(), prefix) {
					continue
				}
				left = true
				at := path.Join(dir, e.Name())
				if e.IsDir() {
					moved++
					err = errors.Join(root.Chmod(at, 0o700), root.Rename(at, prefix+strconv.Itoa(moved)))
				} else {
					err = root.Remove(at)
				}
				if err != nil {
					return false, err
				}
			}
			if err == io.EOF {
				return left, nil
			}
			if err != nil {
				return false, err
			}
		}
	}
	for done := 0; ; { // each is read until it is empty: reading while removing may skip entries
		dir := "."
		if done > 0 {
			dir = prefix + strconv.Itoa(done)
		}
		left, err := empty(dir)
		switch {
		case err != nil:
			return err
		case left:
			continue
		case done > 0:
			if err := root.Remove(dir); err != nil {
				return err
			}
		}
		if done++; done > moved {
			return nil
		}
	}
}

// systemPath is where the system's programs are.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Toolchains finds the named programs in a PATH of this machine and lists the
// mounts that make them usable for isolated steps, at the same paths: for Go
// its whole tree, for others the file. Other programs in /usr need no mount.
// seen is the PATH of a step with these mounts, before the system's own. A
// missing program is left out: the step will report it.
func Toolchains(path string, names []string) (mounts []Mount, seen string) {
	var dirs []string
	for _, name := range names {
		program := findIn(path, name)
		if program == "" {
			continue
		}
		program = toolchainOf(program)
		dir := filepath.Dir(program)
		if !slices.Contains(dirs, dir) && !slices.Contains(filepath.SplitList(systemPath), dir) {
			dirs = append(dirs, dir)
		}
		tree := program
		if root := filepath.Dir(dir); isDir(filepath.Join(root, "pkg", "tool")) {
			tree = root
		}
		source, err := filepath.EvalSymlinks(tree)
		if err == nil && (tree != program || !strings.HasPrefix(tree, "/usr/")) {
			mounts = append(mounts, Mount{Source: source, Target: tree})
		}
	}
	return mounts, strings.Join(append(dirs, systemPath), string(filepath.ListSeparator))
}

// toolchainOf follows the symbolic link by which a system may name a
// toolchain's program.
func toolchainOf(program string) string {
	target, err := filepath.EvalSymlinks(program)
	if err != nil || !isDir(filepath.Join(filepath.Dir(filepath.Dir(target)), "pkg", "tool")) {
		return program
	}
	return target
}

// findIn looks for a program in the absolute directories of a PATH.
func findIn(path, name string) string {
	for _, dir := range filepath.SplitList(path) {
		candidate := filepath.Join(dir, name)
		info, err := os.Stat(candidate)
		if filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return candidate
		}
	}
	return ""
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// find looks for the program of a step as the step itself would: in its start
// directory, or in its own PATH.
func find(dir string, command, env []string) (string, error) {
	name := command[0]
	if strings.ContainsRune(name, os.PathSeparator) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil
	}
	for _, variable := range env {
		list, ok := strings.CutPrefix(variable, "PATH=")
		if !ok {
			continue
		}
		if program := findIn(list, name); program != "" {
			return program, nil
		}
	}
	return "", fmt.Errorf("no program %q in the step's PATH", name)
}
