//go:build amd64 || arm64

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of the files of a step, besides their bytes.
const (
	maxFiles   = 2_000_000
	lookEvery  = 20 * time.Millisecond
	onDiskUnit = 512
)

// fill replaces what was not said by what the machine can bear.
func (l *Limits) fill(scratch string) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); l.Memory == 0 && err == nil {
		l.Memory = int64(uint64(info.Totalram) * uint64(info.Unit) / 4 * 3) //nolint:unconvert // its width differs between architectures
	}
	if l.Processes == 0 {
		l.Processes = 4096
	}
	if l.Disk == 0 {
		if free, _, err := left(scratch); err == nil {
			l.Disk = free / 2
		}
	}
}

// left is how many bytes and files the disk of a directory still takes.
func left(dir string) (bytes, files int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("looking at the disk: %w", err)
	}
	return int64(st.Bavail) * st.Bsize, int64(st.Ffree), nil
}

// watch ends a step that uses more of its disk than it may. Asking the disk how
// much is left costs nothing; only when so much is gone as the step may use is
// what the step has counted, because others write there too.
func watch(ctx context.Context, s Step, runner int, kill func()) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		d, err := newDisk(s, runner)
		for ended := false; err == nil && !ended; {
			select {
			case <-ctx.Done():
				ended = true // one last look
			case <-tick.C:
			}
			err = d.look()
		}
		if err != nil {
			kill()
		}
		done <- err
	}()
	return func() error {
		cancel()
		return <-done
	}
}

// disk is what a step has used of its disk, as far as the disk tells.
type disk struct {
	step         Step
	runner       int   // the first process of the step's namespace
	bytes, files int64 // what was left when the step had used nothing
}

func newDisk(s Step, runner int) (*disk, error) {
	bytes, files, err := left(s.Scratch)
	return &disk{step: s, runner: runner, bytes: bytes, files: files}, err
}

// look counts what the step has, if enough is gone, while no process of the step
// runs: what is moved during a count would be missed. What is gone besides is
// charged to others only if the step had no way to hide it.
func (d *disk) look() error {
	bytes, files, err := left(d.step.Scratch)
	if err != nil || d.bytes-bytes <= d.step.Limits.Disk && d.files-files <= maxFiles {
		return err
	}
	over := &LimitError{Limit: "disk", Most: fmt.Sprintf("%d bytes and %d files", d.step.Limits.Disk, maxFiles)}
	var stopped stopped
	defer stopped.goOn()
	c := counter{step: d.step, seen: map[inode]bool{}}
	if !stopped.stop(d.runner) {
		c.hidden = "processes that do not stop"
	}
	c.named()
	c.held(stopped.all)
	if c.over() {
		return over
	}
	if c.hidden != "" {
		over.Most += fmt.Sprintf(": %d bytes of the disk are gone, and the step has %s, which nobody can count", d.bytes-bytes, c.hidden)
		return over
	}
	d.bytes, d.files = bytes+c.bytes, files+c.files // the rest was others
	return nil
}

// inode names a file, whatever its names are.
type inode struct{ dev, ino uint64 }

// counter counts what a step has written, each file once.
type counter struct {
	step         Step
	bytes, files int64
	seen         map[inode]bool // of those that can be met again
	looked       int            // descriptors and mappings
	hidden       string         // what the step has that cannot be counted
}

func (c *counter) over() bool { return c.bytes > c.step.Limits.Disk || c.files > maxFiles }

func (c *counter) add(st *unix.Stat_t) {
	if st.Nlink != 1 {
		id := inode{uint64(st.Dev), st.Ino} //nolint:unconvert // its width differs between architectures
		if c.seen[id] {
			return
		}
		c.seen[id] = true
	}
	c.files++
	c.bytes += st.Blocks * onDiskUnit
}

// named counts what has a name in the directories that the step may write to.
func (c *counter) named() {
	for _, name := range []string{"out", "home", "tmp"} {
		err := filepath.WalkDir(filepath.Join(c.step.Scratch, name), func(path string, _ fs.DirEntry, err error) error {
			var st unix.Stat_t
			if err == nil {
				err = unix.Lstat(path, &st)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil // a process that does not stop removed it
			}
			if err != nil {
				return err
			}
			if c.add(&st); c.over() {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			c.hidden = "directories that cannot be read"
		}
	}
}
