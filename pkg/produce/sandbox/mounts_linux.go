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

// systemDirs are the system's programs and libraries; symbolic links among
// them are created again.
func systemDirs() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"}
}

// systemFiles are the few files of /etc by which programs find libraries,
// each other, and public certificates.
func systemFiles() []string {
	return []string{
		"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
		"/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted",
	}
}

// forbidden are directories from which nothing is ever mounted for a step.
func forbidden() []string { return []string{"/proc", "/sys", "/dev", "/run", "/var/run"} }

// inside is the content of a step's root: links, and trees, outer ones first.
type inside struct {
	Trees []tree      `json:"trees"`
	Links [][2]string `json:"links"` // target and path relative to the root
}

// insideOf lists the root of a step.
func insideOf(s Step) (inside, error) {
	in := machine()
	if s.Root != "" {
		var err error
		if in, err = unpacked(s); err != nil {
			return inside{}, err
		}
	}
	for _, m := range s.Mounts {
		t, err := admit(m, s.Scratch)
		if err != nil {
			return inside{}, err
		}
		if slices.Contains(in.Trees, t) {
			continue
		}
		if slices.ContainsFunc(in.Trees, func(other tree) bool { return other.Target == t.Target }) {
			return inside{}, fmt.Errorf("mounting %q at %q: the target is used already", m.Source, m.Target)
		}
		in.Trees = append(in.Trees, t)
	}
	for _, d := range []string{"null", "zero", "full", "random", "urandom"} {
		in.Trees = append(in.Trees, tree{Source: "/dev/" + d, Target: "/dev/" + d, Writable: true, Device: true})
	}
	at := Seen(Isolated, s.Scratch)
	own := func(source, target string, writable bool) {
		in.Trees = append(in.Trees, tree{Source: source, Target: target, Writable: writable})
	}
	source, err := sourceOf(s)
	if err != nil {
		return inside{}, err
	}
	own(source, at.Source, false)
	own(filepath.Join(s.Scratch, "out"), at.Out, true)
	own(filepath.Join(s.Scratch, "home"), at.Home, true)
	own(filepath.Join(s.Scratch, "tmp"), at.Temp, true)
	slices.SortStableFunc(in.Trees, func(a, b tree) int { return strings.Count(a.Target, "/") - strings.Count(b.Target, "/") })
	return in, nil
}

// machine is what a step sees of the machine: its programs.
func machine() (in inside) {
	for _, p := range slices.Concat(systemDirs(), systemFiles()) {
		info, err := os.Lstat(p)
		if err == nil && (info.IsDir() || info.Mode().IsRegular()) {
			in.Trees = append(in.Trees, tree{Source: p, Target: p})
		}
	}
	for _, dir := range systemDirs() {
		if target, err := os.Readlink(dir); err == nil {
			in.Links = append(in.Links, [2]string{target, dir[1:]})
		}
	}
	return in
}

// sourceOf is the directory that the step sees as its source.
func sourceOf(s Step) (string, error) {
	if s.Source == "" {
		return filepath.Join(s.Scratch, "src"), nil
	}
	dir, err := visible(s.Source, s.Scratch)
	if err == nil && !isDir(dir) {
		err = errors.New("not a directory")
	}
	if err != nil {
		return "", fmt.Errorf("mounting the source %q: %w", s.Source, err)
	}
	return dir, nil
}

// admit refuses mounts over the step's own directories.
func admit(m Mount, scratch string) (tree, error) {
	no := func(why string) (tree, error) {
		return tree{}, fmt.Errorf("mounting %q at %q: %s", m.Source, m.Target, why)
	}
	if !path.IsAbs(m.Target) || path.Clean(m.Target) != m.Target || m.Target == "/" {
		return no("want two absolute, clean paths")
	}
	source, err := visible(m.Source, scratch)
	if err != nil {
		return no(err.Error())
	}
	for _, p := range forbidden() {
		if within(m.Target, p) {
			return no("mounts below " + p + " are not allowed")
		}
	}
	for _, p := range []string{"/build/out", "/build/home", "/build/src", "/tmp"} {
		if within(p, m.Target) {
			return no("the mount would cover the step's own " + p)
		}
	}
	if within(m.Target, "/build/out") {
		return no("the mount would be among the step's outputs")
	}
	return tree{Source: source, Target: m.Target}, nil
}

// visible refuses paths that no step may see: a parent of the step's own
// directory contains those of others, and a home contains credentials. It
// returns the path without symbolic links.
func visible(name, scratch string) (string, error) {
	if !filepath.IsAbs(name) {
		return "", errors.New("want an absolute path")
	}
	source, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", err
	}
	private := []string{scratch, "/root", "/home", "/etc/shadow", "/etc/ssh", "/var/lib"}
	if home, err := os.UserHomeDir(); err == nil {
		private = append(private, home)
	}
	for _, p := range private {
		if at, err := filepath.EvalSymlinks(p); err == nil && within(at, source) {
			return "", errors.New("the path contains " + p + ", which no step may see")
		}
	}
	for _, p := range forbidden() {
		if within(source, p) {
			return "", errors.New("mounts of " + p + " are not allowed")
		}
	}
	return source, nil
}

// within reports whether a path is a directory or below it.
func within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

// openTree creates a detached copy of a mount tree, with the restrictions for
// steps.
func openTree(t tree) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, t.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return -1, fmt.Errorf("cloning the mount %q: %w", t.Source, err)
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
		return -1, errors.Join(fmt.Errorf("making %q read-only: %w", t.Source, err), unix.Close(fd))
	}
	return fd, nil
}

// attach mounts an opened tree where the step will see it. The mount point is
// created inside root, which no other process uses yet.
func attach(fd int, t tree, root int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("examining %q: %w", t.Source, err)
	}
	at, err := place(root, t.Target[1:], st.Mode&unix.S_IFMT == unix.S_IFDIR)
	if err != nil {
		return fmt.Errorf("mounting %q: %w", t.Target, err)
	}
	if err := unix.MoveMount(fd, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return errors.Join(fmt.Errorf("mounting %q: %w", t.Target, err), unix.Close(at))
	}
	return errors.Join(unix.Close(at), unix.Close(fd))
}

// place opens a mount point, and creates it if needed. Symbolic links on the
// way are untrusted, and are followed as the step will follow them, with root
// as the root. Below a read-only mount the mount point must exist.
func place(root int, name string, dir bool) (int, error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(root, name, how)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	parent, err := place(root, path.Dir(name), true)
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent) //nolint:errcheck // only a path
	if dir {
		err = unix.Mkdirat(parent, path.Base(name), 0o755)
	} else {
		err = unix.Mknodat(parent, path.Base(name), unix.S_IFREG|0o444, 0)
	}
	if err != nil {
		return -1, fmt.Errorf("creating the mount point: %w", err)
	}
	return unix.Openat2(root, name, how)
}
