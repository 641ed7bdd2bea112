package featurestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/kubernetes"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Site is the storage that reconcilers and gates share: the features, the statements
// about their transitions, and the live reconcilers.
type Site struct {
	URI      string
	Features Store
	// Statements has a bundle for each transition, NAMESPACE/NAME/NUMBER.
	Statements Place
	// Members has an object for each reconciler.
	Members Place
}

// The parts of a site, each a place of its own.
const (
	partFeatures   = "features"
	partStatements = "statements"
	partMembers    = "members"
)

// OpenSite opens the site in a directory on this machine, in a bucket, or in a namespace
// of a Kubernetes cluster. It creates
// nothing: a missing directory may be a share that is not mounted.
func OpenSite(uri string, open func(uri string) (Place, error)) (Site, error) {
	if uri == "" || open == nil {
		return Site{}, &verdict.UsageError{Err: errors.New("opening features: want a directory or a bucket, and a function to open it")}
	}
	part := func(name string) (Place, error) { return open(strings.TrimSuffix(uri, "/") + "/" + name) }
	s := Site{URI: uri}
	features, err := part(partFeatures)
	if err != nil {
		return Site{}, err
	}
	if at, is := features.Place.(*kubernetes.Place); is {
		s.Features = &cluster{at}
	} else if path, local := directory(uri); local {
		if Unprepared(uri) {
			return Site{}, &verdict.UnavailableError{Place: uri, Op: "opening features", Err: errors.New("the site is not prepared; run waybill feature reconcile FEATURES.yaml --once --confirm")}
		}
		if s.Features, err = OpenDirectory(filepath.Join(path, partFeatures)); err != nil {
			return Site{}, err
		}
	} else {
		s.Features = Appending(features)
	}
	if s.Statements, err = part(partStatements); err == nil {
		s.Members, err = part(partMembers)
	}
	return s, err
}

// MakeSite creates the subdirectories of a site in an existing directory; a bucket needs
// none. The first reconciler calls it.
func MakeSite(uri string) error {
	path, local := directory(uri)
	if !local {
		return nil
	}
	for _, part := range []string{partFeatures, partStatements, partMembers} {
		if err := os.Mkdir(filepath.Join(path, part), 0o777); err != nil && !errors.Is(err, os.ErrExist) {
			return &verdict.UnavailableError{Place: uri, Op: "preparing features", Err: fmt.Errorf("%w; make the directory, or mount it", err)}
		}
	}
	return nil
}

// Unprepared reports whether a site is an existing directory that [MakeSite] has not
// prepared.
func Unprepared(uri string) bool {
	path, local := directory(uri)
	if _, err := os.Stat(path); !local || err != nil {
		return false
	}
	_, err := os.Stat(filepath.Join(path, partFeatures))
	return errors.Is(err, os.ErrNotExist)
}

// directory is the path of a place that is a directory on this machine.
func directory(uri string) (path string, local bool) {
	if rest, is := strings.CutPrefix(uri, "file://"); is {
		return filepath.FromSlash(rest), true
	}
	return uri, !strings.Contains(uri, "://")
}

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
