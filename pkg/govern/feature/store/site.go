package featurestore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Site is all that programs share who switch features and who go by them: the
// features, the statements about their transitions, and who reconciles.
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

// OpenSite opens the site at a directory of this machine, or in a bucket. Nothing
// is made: a directory that is not there may be a share that is not mounted.
func OpenSite(uri string, open func(uri string) (Place, error)) (Site, error) {
	if uri == "" || open == nil {
		return Site{}, &verdict.UsageError{Err: errors.New("opening features: want a directory or a bucket, and a way to it")}
	}
	part := func(name string) (Place, error) { return open(strings.TrimSuffix(uri, "/") + "/" + name) }
	s := Site{URI: uri}
	features, err := part(partFeatures)
	if err != nil {
		return Site{}, err
	}
	if path, local := directory(uri); local {
		if Unprepared(uri) {
			return Site{}, &verdict.UnavailableError{Place: uri, Op: "opening features", Err: errors.New("nothing was reconciled here yet: waybill feature reconcile FEATURES.yaml --once --confirm begins it")}
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

// MakeSite makes what a site needs in a directory that is there; in a bucket it
// needs nothing. It is for the first reconciler of all.
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

// Unprepared reports whether a site is a directory that is there, and in which
// none was made yet.
func Unprepared(uri string) bool {
	path, local := directory(uri)
	if _, err := os.Stat(path); !local || err != nil {
		return false
	}
	_, err := os.Stat(filepath.Join(path, partFeatures))
	return errors.Is(err, os.ErrNotExist)
}

// directory is the path of a place that is a directory of this machine.
func directory(uri string) (path string, local bool) {
	if rest, is := strings.CutPrefix(uri, "file://"); is {
		return filepath.FromSlash(rest), true
	}
	return uri, !strings.Contains(uri, "://")
}
