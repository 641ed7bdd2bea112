//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// systemDirs are the system's programs and what they are linked with; a link
// among them is made again as a link.
func systemDirs() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"}
}

// systemFiles are the few files of /etc by which programs find libraries,
// each other, and the public's certificates.
func systemFiles() []string {
	return []string{
		"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
		"/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted",
	}
}

// devices are all there are.
func devices() []string { return []string{"null", "zero", "full", "random", "urandom"} }

// forbidden are directories of which nothing is ever mounted for a step.
func forbidden() []string { return []string{"/proc", "/sys", "/dev", "/run", "/var/run"} }

// treesOf lists the mounts of a step, outer ones first.
func treesOf(s Step) ([]tree, error) {
	var list []tree
	for _, p := range slices.Concat(systemDirs(), systemFiles()) {
		info, err := os.Lstat(p)
		if err == nil && (info.IsDir() || info.Mode().IsRegular()) {
			list = append(list, tree{Source: p, Target: p})
		}
	}
	for _, m := range s.Mounts {
		t, err := admit(m, s.Scratch)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	for _, d := range devices() {
		list = append(list, tree{Source: "/dev/" + d, Target: "/dev/" + d, Writable: true, Device: true})
	}
	at := Seen(Isolated, s.Scratch)
	own := func(name, target string, writable bool) {
		list = append(list, tree{Source: filepath.Join(s.Scratch, name), Target: target, Writable: writable})
	}
	own("src", at.Source, false)
	own("out", at.Out, true)
	own("home", at.Home, true)
	own("tmp", at.Temp, true)
	slices.SortStableFunc(list, func(a, b tree) int { return strings.Count(a.Target, "/") - strings.Count(b.Target, "/") })
	return list, nil
}

// admit refuses mounts that would show what no step may see: what holds the
// step's own directory holds those of others, and a home holds credentials.
func admit(m Mount, scratch string) (tree, error) {
	no := func(why string) (tree, error) {
		return tree{}, fmt.Errorf("mounting %q at %q: %s", m.Source, m.Target, why)
	}
	if !filepath.IsAbs(m.Source) || !path.IsAbs(m.Target) || path.Clean(m.Target) != m.Target || m.Target == "/" {
		return no("want two absolute paths without detours")
	}
	source, err := filepath.EvalSymlinks(m.Source)
	if err != nil {
		return no(err.Error())
	}
	private := []string{scratch, "/root", "/home", "/etc/shadow", "/etc/ssh", "/var/lib"}
	if home, err := os.UserHomeDir(); err == nil {
		private = append(private, home)
	}
	for _, p := range private {
		if at, err := filepath.EvalSymlinks(p); err == nil && within(at, source) {
			return no("it holds " + p + ", which no step may see")
		}
	}
	for _, p := range forbidden() {
		if within(source, p) || within(m.Target, p) {
			return no("nothing of " + p + " is for a step")
		}
	}
	for _, p := range []string{"/build/out", "/build/home", "/build/src", "/tmp"} {
		if within(p, m.Target) {
			return no("it would cover the step's own " + p)
		}
	}
	return tree{Source: source, Target: m.Target}, nil
}

// within reports whether a path is a directory or below it.
func within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

// openTree makes a copy of a part of the tree of files that is mounted nowhere
// yet, and takes from it what a step does not need.
func openTree(t tree) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, t.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return -1, fmt.Errorf("taking %q: %w", t.Source, err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID}
	if !t.Device {
		attr.Attr_set |= unix.MOUNT_ATTR_NODEV
	}
	if !t.Writable {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if t.Device {
		attr.Attr_set |= unix.MOUNT_ATTR_NOEXEC
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return -1, errors.Join(fmt.Errorf("closing %q for writing: %w", t.Source, err), unix.Close(fd))
	}
	return fd, nil
}

// attach puts an opened tree where the step will see it. The place is made
// inside root, which is still ours alone.
func attach(fd int, t tree, root string) error {
	at := root + t.Target
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("looking at %q: %w", t.Source, err)
	}
	if err := place(at, st.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return err
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mounting %q: %w", t.Target, err)
	}
	return unix.Close(fd)
}

// place makes a directory or an empty file to mount on. Below a mount that is
// read-only the place must be there already.
func place(at string, dir bool) error {
	if _, err := os.Stat(at); err == nil {
		return nil
	}
	if dir {
		return os.MkdirAll(at, 0o755)
	}
	if err := os.MkdirAll(path.Dir(at), 0o755); err != nil {
		return err
	}
	return os.WriteFile(at, nil, 0o444)
}
