package featurestore

import (
	"io/fs"
	"os"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
)

// dead is the age from which an unfinished file is abandoned. Objects are small, so
// writing one takes a moment.
const dead = 24 * time.Hour

// Tidy removes unfinished files that killed programs left in the directory of a site. A
// file is abandoned if it is a day older than now, and than the last write there: a wrong
// clock, here or on a file server, does not remove the file of a live writer. The write
// of a program that was suspended for a day fails as unavailable, and nothing is lost.
// Files that cannot be read or removed stay; they are harmless. A bucket has no such
// files.
func (s Site) Tidy(now time.Time) {
	path, local := directory(s.URI)
	if !local {
		return
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return
	}
	defer root.Close()
	left := map[string]time.Time{} // by name
	last := time.Time{}
	note := func(name string, d fs.DirEntry) {
		info, err := d.Info()
		switch {
		case err != nil:
		case store.IsStaging(name):
			left[name] = info.ModTime()
		case info.ModTime().After(last):
			last = info.ModTime()
		}
	}
	for _, part := range []string{partFeatures, partStatements, partMembers} {
		_ = fs.WalkDir(root.FS(), part, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				note(name, d)
			}
			return nil
		})
	}
	if last.Before(now) {
		now = last
	}
	for name, at := range left {
		if at.Add(dead).Before(now) {
			_ = root.Remove(name)
		}
	}
}
