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

// maxUnpacked is how many entries of a root are mounted, each by itself. What
// lies below /usr and the like is one.
const maxUnpacked = 4096

// ours are places of which a root has nothing to say, by the directory that
// they are in. Homes, and what belongs to a running machine, hold nothing that
// a tool needs; the accounts and hosts are the step's.
func ours(dir string) []string {
	return map[string][]string{
		"":    {"proc", "dev", "sys", "run", "root", "home", "build", "tmp"},
		"etc": {"passwd", "group", "shadow", "gshadow", "hosts", "nsswitch.conf"},
		"var": {"tmp", "run", "lock"},
	}[dir]
}

// unpacked lists what a step has of its own root. Directories and files are
// mounted from where they are; a link at the top is made again as a link, and
// so is one in /etc or /var, which are ours and hold its entries. Everything
// else is left out.
func unpacked(s Step) (in inside, err error) {
	root, err := visible(s.Root, s.Scratch)
	if err == nil {
		err = in.take(root, "")
	}
	if err == nil && len(in.Trees) == 0 {
		err = errors.New("nothing is in it")
	}
	if err != nil {
		return inside{}, fmt.Errorf("taking the root %q: %w", s.Root, err)
	}
	return in, nil
}

// take adds the entries of one directory of a root.
func (in *inside) take(root, dir string) error {
	entries, err := os.ReadDir(filepath.Join(root, dir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		switch {
		case slices.Contains(ours(dir), e.Name()):
		case len(in.Trees)+len(in.Links) >= maxUnpacked:
			return fmt.Errorf("it has more than %d entries at the top, in /etc and in /var", maxUnpacked)
		case !utf8.ValidString(name):
			return fmt.Errorf("the name %q is not UTF-8", name)
		case name == "etc" || name == "var":
			if e.IsDir() {
				err = in.take(root, name)
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
