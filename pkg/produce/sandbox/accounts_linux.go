//go:build amd64 || arm64

package sandbox

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The range of accounts that root uses for steps, which no system and no
// container manager assigns. Every step uses two of them.
const (
	firstPair = 1 << 30
	pairs     = 1 << 24
)

// ownPair picks two accounts and gives the step's directories to the second.
// Their parent directory stays ours.
func ownPair(s Step) (first int, err error) {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	first = firstPair + 2*int(binary.LittleEndian.Uint32(random[:])%pairs)
	for _, name := range []string{"out", "home", "tmp"} {
		if err := os.Lchown(filepath.Join(s.Scratch, name), first+1, first+1); err != nil {
			return 0, fmt.Errorf("giving the step its directories: %w", err)
		}
	}
	return first, readable(s)
}

// readable makes the source readable for every account if our umask has
// prevented that. Its parent directory limits who can reach it.
func readable(s Step) error {
	dir, err := sourceOf(s)
	if err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm()&0o005 == 0o005 && mask()&0o005 == 0 {
		return err
	}
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		open := info.Mode().Perm() | 0o044
		if open&0o100 != 0 {
			open |= 0o011
		}
		return os.Chmod(p, open)
	})
}

// mask is this process's umask, read without changing it.
func mask() fs.FileMode {
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0o777
	}
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, "Umask:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(value), 8, 32)
			if err == nil {
				return fs.FileMode(n)
			}
		}
	}
	return 0o777
}

func mapped(inside, outside, inside2, outside2 int) []syscall.SysProcIDMap {
	return []syscall.SysProcIDMap{{ContainerID: inside, HostID: outside, Size: 1}, {ContainerID: inside2, HostID: outside2, Size: 1}}
}

// allCapabilities are the capabilities of the runner in its own namespace
// until it drops them.
func allCapabilities() (list []uintptr) {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		list = append(list, c)
	}
	return list
}

// delegatedRange is a range of accounts that the administrator delegated to
// ours.
type delegatedRange struct{ uid, gid int }

// delegation finds the programs and files by which an account has more than
// one.
func delegation() (delegatedRange, error) {
	for _, program := range []string{"newuidmap", "newgidmap"} {
		if findIn(systemPath, program) == "" {
			return delegatedRange{}, errors.New("this account is not root, and the program newuidmap is not installed")
		}
	}
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	uid, err := delegatedIn("/etc/subuid", name)
	if err != nil {
		return delegatedRange{}, err
	}
	gid, err := delegatedIn("/etc/subgid", name)
	return delegatedRange{uid: uid, gid: gid}, err
}

func delegatedIn(file, name string) (int, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		part := strings.Split(strings.TrimSpace(line), ":")
		if len(part) != 3 || part[0] != name && part[0] != strconv.Itoa(os.Getuid()) {
			continue
		}
		first, err := strconv.Atoi(part[1])
		if count, err2 := strconv.Atoi(part[2]); err == nil && err2 == nil && count > 0 {
			return first, nil
		}
	}
	return 0, fmt.Errorf("%s has no range for %q", file, name)
}

// delegate maps the accounts of a waiting runner.
func delegate(pid int) error {
	d, err := delegation()
	if err != nil {
		return err
	}
	for _, m := range []struct {
		program  string
		own, sub int
	}{{"newuidmap", os.Getuid(), d.uid}, {"newgidmap", os.Getgid(), d.gid}} {
		args := []string{strconv.Itoa(pid), strconv.Itoa(runnerID), strconv.Itoa(m.own), "1", strconv.Itoa(stepID), strconv.Itoa(m.sub), "1"}
		if out, err := exec.Command(findIn(systemPath, m.program), args...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", m.program, err, harmless(strings.TrimSpace(string(out))))
		}
	}
	return nil
}
