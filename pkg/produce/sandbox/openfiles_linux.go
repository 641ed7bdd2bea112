//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLooked limits how many descriptors and mappings of a step are examined.
const maxLooked = 1 << 20

// held counts files of processes on the disk of the step that have no name:
// in the descriptors of each thread, which may be separate, in mappings, and
// the running program. Files in a message that has not been received yet are
// in no list: only their presence is reported.
func (c *counter) held(pids []int) {
	var disk unix.Statfs_t
	if unix.Statfs(c.step.Scratch, &disk) != nil {
		c.hidden = "a disk that cannot be examined"
		return
	}
	for _, pid := range pids {
		mapped := false
		for _, thread := range threads(pid) {
			c.descriptors(thread, disk)
			if !mapped { // all threads share them, but a thread that has ended has none
				mapped = c.mappings(thread, disk)
			}
			if c.over() || c.hidden != "" {
				return
			}
		}
	}
}

// descriptors counts the open files of one thread.
func (c *counter) descriptors(thread string, disk unix.Statfs_t) {
	dir, err := os.Open(thread + "/fd")
	var names []string
	if err == nil {
		names, err = dir.Readdirnames(-1)
		err = errors.Join(err, dir.Close())
	}
	if err != nil && !gone(err) {
		c.hidden = "descriptors that cannot be read"
	}
	for _, name := range names {
		st, ok := c.one(thread+"/fd/"+name, disk)
		if !ok || c.over() {
			return
		}
		if st.Mode&unix.S_IFMT == unix.S_IFSOCK && sent(thread+"/fdinfo/"+name) {
			c.hidden = "descriptors in messages that were not received"
			return
		}
	}
}

// sent reports whether a socket has files in messages.
func sent(info string) bool {
	raw, err := os.ReadFile(info)
	if err != nil {
		return !gone(err)
	}
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, "scm_fds:"); ok {
			return strings.TrimSpace(value) != "0"
		}
	}
	return false // a network socket, which carries none
}

// mappings counts the files that a thread has mapped, and its program. It
// reports whether there are any.
func (c *counter) mappings(thread string, disk unix.Statfs_t) bool {
	raw, err := os.ReadFile(thread + "/maps")
	if err != nil && !gone(err) {
		c.hidden = "mappings that cannot be read"
	}
	if len(raw) == 0 {
		return false
	}
	process := "/proc/" + filepath.Base(thread)
	if _, ok := c.one(process+"/exe", disk); !ok {
		return true
	}
	for line := range strings.Lines(string(raw)) {
		if c.looked++; c.looked > maxLooked {
			c.hidden = "too many mappings"
			return true
		}
		if !strings.HasSuffix(line, " (deleted)\n") {
			continue
		}
		place, _, _ := strings.Cut(line, " ")
		from, to, _ := strings.Cut(place, "-")
		if _, ok := c.one(process+"/map_files/"+unpadded(from)+"-"+unpadded(to), disk); !ok {
			return true
		}
	}
	return true
}

// unpadded is a number as in the names in map_files.
func unpadded(hex string) string {
	n, err := strconv.ParseUint(hex, 16, 64)
	if err != nil {
		return hex
	}
	return strconv.FormatUint(n, 16)
}

// one counts the target of a link in /proc, if it has no name and is on the
// disk of the step: memory has its own limit.
func (c *counter) one(link string, disk unix.Statfs_t) (st unix.Stat_t, ok bool) {
	if c.looked++; c.looked > maxLooked {
		c.hidden = "too many descriptors"
		return st, false
	}
	err := unix.Stat(link, &st)
	if err == nil && st.Nlink == 0 {
		var on unix.Statfs_t
		if err = unix.Statfs(link, &on); err == nil && on.Type == disk.Type && on.Fsid == disk.Fsid {
			c.add(&st)
		}
	}
	if err != nil && !gone(err) {
		c.hidden = "files that cannot be examined"
		return st, false
	}
	return st, true
}

// gone reports whether a process has ended while it was examined.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }
