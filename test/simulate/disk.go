package simulate

import (
	"bytes"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// disk knows what of an actor's disk was synced, by the numbers of the inodes.
type disk struct {
	files map[uint64][]byte            // content
	names map[uint64]map[string]uint64 // entries of directories
}

func inode(info fs.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }

// entries are the entries of a directory.
func entries(dir string) (map[string]uint64, error) {
	list, err := os.ReadDir(dir)
	names := map[string]uint64{}
	for _, e := range list {
		if info, gone := e.Info(); gone == nil {
			names[e.Name()] = inode(info)
		}
	}
	return names, err
}

// keep notes that everything below a path is synced.
func (d *disk) keep(path string) error {
	d.files, d.names = map[uint64][]byte{}, map[uint64]map[string]uint64{}
	return filepath.WalkDir(path, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return d.sync(path)
	})
}

// sync notes that a file, or a directory with its entries, is synced.
func (d *disk) sync(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
	case info.IsDir():
		d.names[inode(info)], err = entries(path)
	default:
		d.files[inode(info)], err = os.ReadFile(path)
	}
	return err
}

// cut writes what a power cut leaves of a directory to another one. A name or a content
// that was not synced is there or not, whatever the others are; a file that was renamed
// in its directory has one of its names.
func (d *disk) cut(from, to string, dice *rand.Rand) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	now, err := entries(from)
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	was, left := d.names[inode(info)], map[string]uint64{}
	all := maps.Clone(now)
	maps.Copy(all, was)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		left[name] = now[name]
		if was[name] != now[name] && dice.IntN(2) == 0 {
			left[name] = was[name]
		}
	}
	paths := map[uint64]string{}
	for name, number := range now {
		paths[number] = filepath.Join(from, name)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		number := left[name]
		if old := was[name]; number == 0 && paths[old] != "" && !slices.Contains(slices.Collect(maps.Values(left)), old) {
			number = old
		}
		if number != 0 {
			if err := d.write(number, paths[number], filepath.Join(to, name), dice); err != nil {
				return err
			}
		}
	}
	return nil
}

// write writes what is left of a file, whose path is "" if it has none any more.
func (d *disk) write(number uint64, from, to string, dice *rand.Rand) error {
	synced, known := d.files[number]
	if from == "" {
		if !known { // a directory that was removed
			return nil
		}
		return os.WriteFile(to, synced, 0o600)
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return d.cut(from, to, dice)
	}
	raw, err := os.ReadFile(from)
	switch whole := bytes.Equal(raw, synced); {
	case err != nil:
		return err
	case whole && known:
	case known && bytes.HasPrefix(raw, synced): // appended
		raw = raw[:len(synced)+dice.IntN(len(raw)-len(synced)+1)]
	default:
		raw = [][]byte{raw, raw[:len(raw)/2], make([]byte, len(raw)), synced}[dice.IntN(4)]
	}
	return os.WriteFile(to, raw, info.Mode().Perm())
}

// syncing is called instead of each [os.File.Sync], if this build can do that.
var syncing = func(*os.File) error { return nil } //nolint:unused // the build that simulates reads it

// synced is the end of a sync of a file: its actor is killed before it, or after it, or
// it is done.
func (w *World) synced(f *os.File) error {
	a := w.owner(f.Name())
	if a == nil {
		return nil
	}
	if a.dead() {
		return errDead
	}
	before, after := a.step()
	if before {
		return a.kill()
	}
	if w.Broken != NoSync {
		a.mu.Lock()
		err := a.disk.sync("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
		a.mu.Unlock()
		if err != nil {
			return err
		}
	}
	if after {
		return a.kill()
	}
	return nil
}
