//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"
)

// maxUnpacked limits the entries of a root that are mounted individually. A
// directory like /usr counts as one.
const maxUnpacked = 4096

// ours are the paths that are not taken from a root, by their directory.
// Homes, and state of a running machine, contain nothing that a tool needs;
// accounts and hosts are the step's own.
func ours(dir string) []string {
	return map[string][]string{
		"":    {"proc", "dev", "sys", "run", "root", "home", "build", "tmp"},
		"etc": {"passwd", "group", "shadow", "gshadow", "hosts", "nsswitch.conf"},
		"var": {"tmp", "run", "lock"},
	}[dir]
}

// unpacked lists what a step sees of its own root. Directories and files are
// mounted from where they are; symbolic links at the top are created again,
// as in /etc and /var, whose entries are handled individually. Everything
// else is left out.
func unpacked(s Step) (in inside, err error) {
	root, err := visible(s.Root, s.Scratch)
	if err == nil {
		err = in.add(root, "")
	}
	if err == nil && len(in.Trees) == 0 {
		err = errors.New("the directory is empty")
	}
	if err != nil {
		return inside{}, fmt.Errorf("mounting the root %q: %w", s.Root, err)
	}
	return in, nil
}

// add adds the entries of one directory of a root.
func (in *inside) add(root, dir string) error {
	entries, err := os.ReadDir(filepath.Join(root, dir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		switch {
		case slices.Contains(ours(dir), e.Name()):
		case len(in.Trees)+len(in.Links) >= maxUnpacked:
			return fmt.Errorf("more than %d entries at the top, in /etc and in /var", maxUnpacked)
		case !utf8.ValidString(name):
			return fmt.Errorf("the name %q is not UTF-8", name)
		case name == "etc" || name == "var":
			if e.IsDir() {
				err = in.add(root, name)
			}
		case e.Type()&fs.ModeSymlink != 0:
			var target string
			target, err = os.Readlink(filepath.Join(root, name))
			in.Links = append(in.Links, [2]string{target, name})
		case e.IsDir() || e.Type().IsRegular():
			in.Trees = append(in.Trees, tree{Source: filepath.Join(root, name), Target: "/" + name})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
