// Package marker moves version markers: files such as stable.txt that hold the
// version of a release and nothing else, which tell people and scripts what is
// newest. Markers are unsigned; for a signed answer use a channel index.
//
//	moved, err := marker.Move(ctx, marker.Place{Place: place, Writer: writer}, "release/stable.txt", v)
//
// A marker only moves forward. A marker with the same or a higher version
// stays, and one that holds something other than a version is never
// overwritten. Each write is conditional on the bytes that were read, so
// concurrent writers cannot undo each other. The caller must first publish and
// verify the release: a marker tells people to fetch it.
//
// Other projects should not import this package: it changes without notice.
package marker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	channelindex "github.com/waybill-release/waybill/attestations/channel/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// maxSize bounds a file that holds a version.
const maxSize = 256

// attempts is how often a write is tried again after another writer was faster.
const attempts = 16

const mediaType = "text/plain"

// Place is where markers are read and written.
type Place struct {
	store.Place
	store.Writer
}

// Moved is the outcome for one marker.
type Moved struct {
	Name string
	// From is the version before, the zero Version if the marker did not exist;
	// Now is the version after.
	From, Now version.Version
	// Written says that the marker was written by this call.
	Written bool
}

// String describes the outcome in one line.
func (m Moved) String() string {
	switch {
	case m.Written && m.From.IsZero():
		return m.Name + " is new: " + m.Now.String()
	case m.Written:
		return m.Name + " moved from " + m.From.String() + " to " + m.Now.String()
	}
	return m.Name + " stays at " + m.Now.String()
}

// builds is the directory of the markers for builds between two releases.
const builds = "ci"

// Check refuses versions that do not fit a marker's channel: stable.txt must
// not hold a release candidate, and only markers in a directory ci hold builds
// between two releases. Other names that are not channels accept any version.
func Check(names []string, v version.Version) error {
	for _, name := range names {
		if ofBuilds := path.Base(path.Dir(name)) == builds; ofBuilds != v.IsBuild() {
			return verdict.Refuse(verdict.Version, name, "version %s does not fit this marker: markers in %s/ hold builds between two releases, all others releases", v, builds).
				Advise("correct the markers in release.yaml")
		}
		channel := strings.TrimSuffix(path.Base(name), ".txt")
		if !channelindex.IsChannel(channel) || v.IsBuild() {
			continue
		}
		if err := (channelindex.Entry{Channel: channel, Version: v.String()}).Validate(); err != nil {
			return verdict.Refuse(verdict.Version, name, "version %s does not fit this marker: %v", v, verdict.FindingOf("", err).Message).
				Advise("correct the markers in release.yaml: {channel} expands to the channel of the version")
		}
	}
	return nil
}

// maxConfig limits the size of a published release.yaml.
const maxConfig = 4 << 20

// Named returns the markers that the published release.yaml, which has a digest,
// names for a version. It refuses those that [Check] refuses.
func Named(ctx context.Context, at store.Place, config digest.Digest, v version.Version, parameters map[string]string) ([]string, error) {
	raw, err := store.Read(ctx, at, plan.ConfigName, maxConfig)
	if err != nil {
		return nil, fmt.Errorf("reading the names of the markers: %w", err)
	}
	if got := digest.Of(digest.SHA256, raw); !got.Equal(config) {
		return nil, &verdict.Error{Finding: verdict.Find(verdict.Tampered, plan.ConfigName, "the digest is not the one in the manifest").Differ(config.String(), got.String())}
	}
	parsed, err := plan.ParseConfig(raw)
	if err != nil {
		return nil, err
	}
	planned, err := parsed.ExpandWith(v, parameters)
	if err != nil {
		return nil, fmt.Errorf("expanding the published %s: %w", plan.ConfigName, err)
	}
	return planned.Markers, Check(planned.Markers, v)
}

// Read returns the version that a marker holds, the zero Version if there is no
// such marker.
func Read(ctx context.Context, at store.Place, name string) (version.Version, error) {
	v, _, err := read(ctx, at, name)
	return v, err
}

func read(ctx context.Context, at store.Place, name string) (version.Version, digest.Digest, error) {
	raw, err := store.Read(ctx, at, name, maxSize)
	if errors.Is(err, store.ErrNotFound) {
		return version.Version{}, digest.Digest{}, nil
	}
	if err != nil {
		return version.Version{}, digest.Digest{}, err
	}
	v, err := version.Parse(strings.TrimRight(string(raw), "\r\n"))
	if err != nil {
		return version.Version{}, digest.Digest{}, verdict.Refuse(verdict.FileConflict, name, "the marker does not hold a version: %v", err).
			Advise("find out who wrote the marker, then remove it; Waybill never overwrites it")
	}
	return v, digest.Of(digest.SHA256, raw), nil
}

// Move sets a marker to a version, if the marker is missing or holds a lower
// one.
func Move(ctx context.Context, at Place, name string, to version.Version) (Moved, error) {
	var err error
	for range attempts {
		held, sum, looked := read(ctx, at, name)
		if looked != nil {
			return Moved{}, looked
		}
		if !held.IsZero() && !held.Less(to) {
			return Moved{Name: name, From: held, Now: held}, nil
		}
		if err = at.write(ctx, name, sum, to); err == nil {
			return Moved{Name: name, From: held, Now: to, Written: true}, nil
		}
		if !errors.Is(err, store.ErrChanged) && !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrNotFound) {
			return Moved{}, err
		}
	}
	return Moved{}, &verdict.UnavailableError{Place: at.URI(), Op: "moving " + name, Err: fmt.Errorf("other writers keep changing the marker: %w", err)}
}

// write replaces exactly the bytes that were read, or creates the marker.
func (p Place) write(ctx context.Context, name string, old digest.Digest, to version.Version) error {
	text := []byte(to.String()) // no newline, as Kubernetes writes it
	if old.IsZero() {
		return p.Put(ctx, name, int64(len(text)), bytes.NewReader(text), store.PutOptions{IfAbsent: true, MediaType: mediaType})
	}
	return store.Replace(ctx, p.Place, p.Writer, name, store.Replacement{Old: old, New: text, MediaType: mediaType})
}
