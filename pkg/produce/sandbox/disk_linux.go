//go:build amd64 || arm64

package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of the files of a step, besides their bytes.
const (
	maxFiles   = 2_000_000
	lookEvery  = 20 * time.Millisecond
	onDiskUnit = 512
)

// fill sets the defaults by the capacity of the machine.
func (l *Limits) fill(scratch string) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); l.Memory == 0 && err == nil {
		l.Memory = int64(uint64(info.Totalram) * uint64(info.Unit) / 4 * 3) //nolint:unconvert // its width differs between architectures
	}
	l.Processes = cmp.Or(l.Processes, 4096)
	if l.Disk == 0 {
		if free, _, err := freeSpace(scratch); err == nil {
			l.Disk = free / 2
		}
	}
}

// freeSpace is how many bytes and files are free on the disk of a directory.
func freeSpace(dir string) (bytes, files int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("reading the free disk space: %w", err)
	}
	return int64(st.Bavail) * st.Bsize, int64(st.Ffree), nil
}

// watch ends a step that uses more disk space than permitted. Reading the
// free space is cheap; only when it has shrunk by the step's limit is the
// step's own use counted, because others write to the disk, too.
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
				ended = true // check once more
			case <-tick.C:
			}
			err = d.check()
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

// disk is the disk usage of a step.
type disk struct {
	step         Step
	runner       int   // the first process of the step's namespace
	bytes, files int64 // free space minus nothing used by the step
}

// newDisk reads the free space before the step uses any.
func newDisk(s Step, runner int) (*disk, error) {
	bytes, files, err := freeSpace(s.Scratch)
	return &disk{step: s, runner: runner, bytes: bytes, files: files}, err
}

// check counts the step's files, if the free space has shrunk enough, while
// all processes of the step are stopped: files that are moved during a count
// would be missed. The rest is attributed to others only if the step had no
// way to hide files.
func (d *disk) check() error {
	bytes, files, err := freeSpace(d.step.Scratch)
	d.bytes, d.files = max(d.bytes, bytes), max(d.files, files) // what others free must not hide what the step uses
	if err != nil || d.bytes-bytes <= d.step.Limits.Disk && d.files-files <= maxFiles {
		return err
	}
	most := fmt.Sprintf("%d bytes and %d files", d.step.Limits.Disk, maxFiles)
	var stopped stopped
	defer stopped.resume()
	c := counter{step: d.step, seen: map[inode]bool{}}
	if !stopped.stop(d.runner) {
		c.hidden = "processes that do not stop"
	}
	c.named()
	c.held(stopped.all)
	if c.over() {
		return exceeded("disk", most)
	}
	if c.hidden != "" {
		most += fmt.Sprintf(": the free disk space shrank by %d bytes, and the step has %s, which cannot be counted", d.bytes-bytes, c.hidden)
		return exceeded("disk", most)
	}
	d.bytes, d.files = bytes+c.bytes, files+c.files // others have used the rest
	return nil
}

// inode identifies a file, whatever its names.
type inode struct{ dev, ino uint64 }

// counter counts what a step has written, each file once.
type counter struct {
	step         Step
	bytes, files int64
	seen         map[inode]bool // of files that may be counted again
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

// named counts the files with names in the writable directories of the step.
func (c *counter) named() {
	for _, name := range []string{"out", "home", "tmp"} {
		err := filepath.WalkDir(filepath.Join(c.step.Scratch, name), func(path string, _ fs.DirEntry, err error) error {
			var st unix.Stat_t
			if err == nil {
				err = unix.Lstat(path, &st)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil // removed by a process that does not stop
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
