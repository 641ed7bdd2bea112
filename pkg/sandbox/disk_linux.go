//go:build amd64 || arm64

package sandbox

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of the files of a step, besides their bytes.
const (
	maxFiles   = 2_000_000
	lookEvery  = 100 * time.Millisecond
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

// watch ends a step whose directories grow past the limit. Asking the disk how
// much is left costs nothing; only when so much is gone as the step may use are
// its own files counted, because others write there too.
func watch(ctx context.Context, s Step, kill func()) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		d, err := newDisk(s)
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
	bytes, files int64 // what was left when the step had used nothing
}

func newDisk(s Step) (*disk, error) {
	bytes, files, err := left(s.Scratch)
	return &disk{step: s, bytes: bytes, files: files}, err
}

func (d *disk) look() error {
	bytes, files, err := left(d.step.Scratch)
	if err != nil || d.bytes-bytes <= d.step.Limits.Disk && d.files-files <= maxFiles {
		return err
	}
	usedBytes, usedFiles, err := measure(d.step)
	d.bytes, d.files = bytes+usedBytes, files+usedFiles // the rest was others
	return err
}

// measure counts what a step has written. What it hides from us counts as too
// much.
func measure(s Step) (bytes, files int64, err error) {
	over := &LimitError{Limit: "disk", Most: fmt.Sprintf("%d bytes and %d files", s.Limits.Disk, maxFiles)}
	for _, name := range []string{"out", "home", "tmp"} {
		err := filepath.WalkDir(filepath.Join(s.Scratch, name), func(_ string, e fs.DirEntry, err error) error {
			if os.IsNotExist(err) {
				return nil // it is still running, and removed it
			}
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return nil //nolint:nilerr // as above
			}
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				bytes += st.Blocks * onDiskUnit
			}
			if files++; bytes > s.Limits.Disk || files > maxFiles {
				return over
			}
			return nil
		})
		if err != nil {
			return bytes, files, over
		}
	}
	return bytes, files, nil
}
