package featurestore

import (
	"io/fs"
	"os"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
)

// dead is the age from which a file that was never whole is nobody's any more.
// Writing one takes a moment: objects here are small.
const dead = 24 * time.Hour

// Tidy removes what programs left in the directory of a site that were killed
// while they wrote. A file counts as left when it is a day older than now, and
// than the last thing that was written there: so a clock that is wrong, here or
// where the directory is served from, costs no live writer his file. Should one
// have slept for a day, his write fails as if the place were away, and nothing is
// lost. What cannot be looked at or removed stays: it is in nobody's way. A bucket
// has no such files.
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
