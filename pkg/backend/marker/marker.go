// Package marker moves version markers: files such as stable.txt that hold the
// version of a release and nothing else, which is how people and scripts learn
// what is newest. Nobody signs them; who wants a signed answer asks a channel
// index.
//
//	moved, err := marker.Move(ctx, marker.Place{Place: place, Writer: writer}, "release/stable.txt", v)
//
// A marker only ever moves on. One that holds the same version or a higher one
// stays, and one that holds something else than a version is never written
// over. Each write is tied to what was looked at, so that of several writers
// none takes back what another wrote. The caller sees to it that the release
// is public and was verified: a marker tells people to fetch it.
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
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// maxSize bounds a file that holds a version.
const maxSize = 256

// attempts is how often a marker is looked at again, when another writer was
// quicker.
const attempts = 16

// mediaType is how markers are served.
const mediaType = "text/plain"

// Place is where markers lie, to be read and written.
type Place struct {
	store.Place
	store.Writer
}

// Moved says what became of one marker.
type Moved struct {
	Name string
	// From is what it held, and the zero Version when it was not there; Now is
	// what it holds.
	From, Now version.Version
	// Written says that it was written now.
	Written bool
}

// String says it in a line for people.
func (m Moved) String() string {
	switch {
	case m.Written && m.From.IsZero():
		return m.Name + " is new: " + m.Now.String()
	case m.Written:
		return m.Name + " moved from " + m.From.String() + " to " + m.Now.String()
	}
	return m.Name + " stays at " + m.Now.String()
}

// Check refuses markers that a version does not belong under: stable.txt is of
// no candidate. Names that are not those of channels can be of any version.
func Check(names []string, v version.Version) error {
	for _, name := range names {
		channel := strings.TrimSuffix(path.Base(name), ".txt")
		if !channelindex.IsChannel(channel) {
			continue
		}
		if err := (channelindex.Entry{Channel: channel, Version: v.String()}).Validate(); err != nil {
			return verdict.Refuse(verdict.Version, name, "%s does not belong there: %v", v, verdict.FindingOf("", err).Message).
				Advise("mend the markers of release.yaml: {channel} stands for the channel of the version")
		}
	}
	return nil
}

// Read is the version that a marker holds, and the zero Version if there is no
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
		return version.Version{}, digest.Digest{}, verdict.Refuse(verdict.FileConflict, name, "the marker holds something else than a version: %v", err).
			Advise("look who wrote it, and remove it; it is not written over")
	}
	return v, digest.Of(digest.SHA256, raw), nil
}

// Move has a marker hold a version, if it holds a lower one or is not there.
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
	return Moved{}, &verdict.UnavailableError{Place: at.URI(), Op: "moving " + name, Err: fmt.Errorf("others write it without a pause: %w", err)}
}

// write writes a version over the very bytes that were looked at, or where
// there were none.
func (p Place) write(ctx context.Context, name string, old digest.Digest, to version.Version) error {
	text := []byte(to.String()) // without an end of line, as Kubernetes writes it
	if old.IsZero() {
		return p.Put(ctx, name, int64(len(text)), bytes.NewReader(text), store.PutOptions{IfAbsent: true, MediaType: mediaType})
	}
	return store.Replace(ctx, p.Place, p.Writer, name, store.Replacement{Old: old, New: text, MediaType: mediaType})
}
