package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Prepare makes the directories of a step in scratch: src for what it reads,
// out, home and tmp for what it writes.
func Prepare(scratch string) error {
	for _, name := range []string{"src", "out", "home", "tmp"} {
		if err := os.Mkdir(filepath.Join(scratch, name), 0o755); err != nil {
			return fmt.Errorf("making the step's directories: %w", err)
		}
	}
	return nil
}

// Remove removes a step's directories, also those that it closed to everybody.
func Remove(scratch string) error {
	if os.RemoveAll(scratch) == nil {
		return nil
	}
	_ = filepath.WalkDir(scratch, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) // removing says what is wrong
		}
		return nil
	})
	return os.RemoveAll(scratch)
}

// systemPath is where the system's programs are.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Toolchains finds the named programs in a PATH of this machine and lists the
// mounts that make them usable behind walls, where they are: for Go its whole
// tree, for any other its file. Other programs in /usr need no mount. seen is
// the PATH of a step that has them, before the system's own. A name that is
// not there is left out: the step will say so.
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

// toolchainOf follows the link by which a system may name the program of a
// toolchain.
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

// find looks for the program of a step as the step itself would: in the
// directory it starts in, or in its own PATH.
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
