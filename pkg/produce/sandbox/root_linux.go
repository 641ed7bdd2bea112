//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// stage is where the new root is assembled. Every system has this directory.
const stage = "/tmp"

// files builds the step's root on an empty file system in memory, makes it
// this process's root, and detaches the machine's.
func (r *runner) files() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	fds, err := r.trees()
	if err != nil {
		return err
	}
	if r.spec.Account == delegated {
		if err := r.hand(); err != nil {
			return err
		}
	}
	if err := unix.Mount("root", stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=16m,nr_inodes=16k,mode=0755"); err != nil {
		return fmt.Errorf("mounting a root: %w", err)
	}
	if err := populate(stage, r.spec.Links); err != nil {
		return err
	}
	if err := unix.Mount("proc", stage+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "hidepid=invisible,subset=pid"); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	root, err := unix.Open(stage, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening the root: %w", err)
	}
	defer unix.Close(root) //nolint:errcheck // only a path
	for i, t := range r.spec.Trees {
		if err := attach(fds[i], t, root); err != nil {
			return err
		}
	}
	return enter(stage)
}

// trees are the mounts that the launcher opened or, if it may not, those that
// we may open in our own namespace.
func (r *runner) trees() ([]int, error) {
	fds := make([]int, len(r.spec.Trees))
	for i, t := range r.spec.Trees {
		fds[i] = treesFD + i
		if r.spec.Account == pair {
			unix.CloseOnExec(fds[i])
			continue
		}
		var err error
		if fds[i], err = openTree(t); err != nil {
			return nil, err
		}
	}
	return fds, nil
}

// hand gives the step's directories to its account.
func (r *runner) hand() error {
	for _, t := range r.spec.Trees {
		if t.Writable && !t.Device {
			if err := chownAll(t.Source, stepID); err != nil {
				return fmt.Errorf("giving %q to the step: %w", t.Target, err)
			}
		}
	}
	return nil
}

// populate creates what every root needs and the machine does not provide.
// Links come last, so nothing is written through them.
func populate(root string, links [][2]string) error {
	for _, dir := range []string{"proc", "dev", "etc", "build", "tmp", "var"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return fmt.Errorf("populating the root: %w", err)
		}
	}
	for name, body := range map[string]string{
		"etc/passwd":        fmt.Sprintf("root:x:0:0::/:/bin/false\nstep:x:%d:%[1]d::/build/home:/bin/sh\n", stepID),
		"etc/group":         fmt.Sprintf("root:x:0:\nstep:x:%d:\n", stepID),
		"etc/hosts":         "127.0.0.1 localhost waybill\n::1 localhost\n",
		"etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(body), 0o644); err != nil {
			return fmt.Errorf("populating the root: %w", err)
		}
	}
	links = append([][2]string{
		{"/proc/self/fd", "dev/fd"}, {"/proc/self/fd/0", "dev/stdin"}, {"/proc/self/fd/1", "dev/stdout"},
		{"/proc/self/fd/2", "dev/stderr"}, {"/tmp", "var/tmp"},
	}, links...)
	for _, l := range links {
		if err := os.Symlink(l[0], filepath.Join(root, l[1])); err != nil {
			return fmt.Errorf("populating the root: %w", err)
		}
	}
	return nil
}

// enter changes the root and detaches the old one, which then has no path any
// more.
func enter(root string) error {
	if err := os.Chdir(root); err != nil {
		return fmt.Errorf("entering the root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detaching the machine's root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("entering the root: %w", err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOEXEC}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &attr); err != nil {
		return fmt.Errorf("making the root read-only: %w", err)
	}
	return checkRoot()
}

// checkRoot checks that nothing of the machine is visible: /proc says that
// this is the first process, and there are no homes of accounts.
func checkRoot() error {
	if self, err := os.Readlink("/proc/self"); err != nil || self != "1" {
		return fmt.Errorf("the new /proc says that this process is %q, not the first", self)
	}
	for _, dir := range []string{"/root", "/home", "/sys", "/run", "/etc/shadow"} {
		if _, err := os.Lstat(dir); err == nil {
			return fmt.Errorf("%q of the machine is still there", dir)
		}
	}
	return nil
}
