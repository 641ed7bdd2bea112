// Package latest finds the current release of a channel, such as "stable" or
// "stable-1.31".
//
// The answer comes from a signed channel index, which package channel judges.
// The highest index seen so far is stored in a directory, and a lower one is
// refused from then on. A project without an index may have markers: unsigned
// files that contain a version. Anyone who can change a marker can bring back
// any older release, so such an answer says that rollback was not checked.
//
//	f, err := latest.Find(ctx, latest.Request{Channel: "stable", …})
//
// Other projects should not import this package: it changes without notice.
package latest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	channelindex "github.com/waybill-release/waybill/attestations/channel/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/judge/channel"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// maxMarker is the largest file that contains only a version.
const maxMarker = 256

// Request asks for the release of a channel.
type Request struct {
	Channel string
	// Index and Markers are addresses of files, as a profile names them.
	Index, Markers string
	// Open opens the place with a file.
	Open     func(uri string) (store.Place, error)
	Verifier *verify.Verifier
	Policy   policy.Policy
	// Memory is the directory that stores the last seen index, to detect
	// rollback. Project is whose index it must be: the name of the profile, as
	// in the manifests.
	Memory, Project string
	Now             time.Time
}

// Followed is the current release of a channel.
type Followed struct {
	Version version.Version
	// Manifest is the bundle that the index names; zero if a marker answered.
	Manifest digest.Set
	// Note says where the answer comes from.
	Note string
	// Left is what was not checked, or empty.
	Left string
}

// IsChannel reports whether a word names a channel, not a version.
func IsChannel(word string) bool { return channelindex.IsChannel(word) }

// Find finds the current release of the channel.
func Find(ctx context.Context, req Request) (Followed, error) {
	switch {
	case req.Index != "":
		return req.byIndex(ctx)
	case req.Markers != "":
		return req.byMarker(ctx)
	}
	return Followed{}, verdict.Refuse(verdict.Usage, req.Channel, "the profile has neither a channel index nor markers: name a version instead of the channel")
}

// unchecked is the limit of an answer without an index.
const unchecked = "rollback not checked"

// nameVersion is the next act where a channel has no release.
const nameVersion = "name a version, or ask the project about the channel"

func (r Request) byMarker(ctx context.Context) (Followed, error) {
	uri := strings.ReplaceAll(r.Markers, "{channel}", r.Channel)
	raw, err := r.read(ctx, uri, maxMarker)
	if errors.Is(err, store.ErrNotFound) {
		return Followed{}, verdict.Refuse(verdict.EvidenceMissing, r.Channel, "the channel has no marker %s", uri).Advise(nameVersion)
	}
	if err != nil {
		return Followed{}, err
	}
	v, err := version.Parse(strings.TrimRight(string(raw), "\r\n"))
	if err != nil {
		return Followed{}, verdict.Wrap(verdict.Version, uri, err).Advise(nameVersion)
	}
	if err := (channelindex.Entry{Channel: r.Channel, Version: v.String()}).Validate(); err != nil {
		return Followed{}, verdict.Wrap(verdict.Version, uri, err).Advise(nameVersion)
	}
	return Followed{
		Version: v, Left: unchecked,
		Note: fmt.Sprintf("%s is %s according to the unsigned %s: %s", r.Channel, v, uri, unchecked),
	}, nil
}

func (r Request) byIndex(ctx context.Context) (Followed, error) {
	raw, err := r.read(ctx, r.Index, verify.MaxBundle)
	if errors.Is(err, store.ErrNotFound) {
		return Followed{}, verdict.Refuse(verdict.EvidenceMissing, r.Index, "no such channel index").Advise(nameVersion)
	}
	if err != nil {
		return Followed{}, err
	}
	x, err := r.judge(raw)
	if err != nil {
		return Followed{}, err
	}
	seen, err := r.seen(ctx)
	if err != nil {
		return Followed{}, err
	}
	if err := errors.Join(x.Of(r.Project), x.Fresh(r.Now), x.Follows(seen)); err != nil {
		return Followed{}, err
	}
	if x.Number() > seen.Number() {
		if err := r.remember(ctx, "channels", raw); err != nil {
			return Followed{}, err
		}
	}
	release, err := x.Find(r.Channel)
	if err != nil {
		return Followed{}, err
	}
	f := Followed{Version: release.Version, Manifest: release.Manifest}
	f.Note = fmt.Sprintf("%s is %s according to channel index %d, signed by %s", r.Channel, f.Version, x.Number(), x.Proof().Identity)
	if seen.Number() == 0 {
		f.Note += "; no index was seen before, so only the expiry protects against an older one"
	}
	return f, nil
}

func (r Request) judge(raw []byte) (channel.Index, error) {
	e, err := r.Verifier.Attestation(raw)
	if err != nil {
		return channel.Index{}, err
	}
	return channel.Parse(e, r.Policy)
}

// remembered is the file that stores the last seen index of the project. A
// project's name may not be a valid file name, so it is hashed.
func (r Request) remembered(what string) string {
	return what + "-" + digest.Of(digest.SHA256, []byte(r.Project)).Hex()[:16] + ".sigstore.json"
}

// seen returns the last seen index; the zero Index if there was none. A stored
// index that is invalid is an error, never treated as none.
func (r Request) seen(ctx context.Context) (channel.Index, error) {
	raw, err := r.recall(ctx, "channels")
	if raw == nil || err != nil {
		return channel.Index{}, err
	}
	x, err := r.judge(raw)
	if err != nil {
		return channel.Index{}, fmt.Errorf("judging the last seen index, %s in %s (remove the file to start over): %w", r.remembered("channels"), r.Memory, err)
	}
	return x, nil
}

// recall reads a remembered file; nil if there is none.
func (r Request) recall(ctx context.Context, what string) ([]byte, error) {
	place, err := store.Open(r.Memory, nil)
	if err != nil {
		return nil, err
	}
	raw, err := store.Read(ctx, place, r.remembered(what), verify.MaxBundle)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return raw, err
}

func (r Request) remember(ctx context.Context, what string, raw []byte) error {
	to, err := store.OpenWriter(r.Memory)
	if err != nil {
		return err
	}
	return to.Put(ctx, r.remembered(what), int64(len(raw)), bytes.NewReader(raw), store.PutOptions{})
}

// Evidence is what accepted releases of the project had; nil without memory.
func (r Request) Evidence(ctx context.Context) (map[version.Version][]string, error) {
	if r.Memory == "" {
		return nil, nil
	}
	all := map[version.Version][]string{}
	raw, err := r.recall(ctx, "evidence")
	if raw == nil || err != nil {
		return all, err
	}
	if err := strictjson.Unmarshal(raw, &all); err != nil {
		return nil, verdict.Wrap(verdict.ConfigParse, r.Memory+"/"+r.remembered("evidence"), err).Advise("find out who changed the file; remove it to start over")
	}
	return all, nil
}

// Keep remembers what accepted releases of the project had.
func (r Request) Keep(ctx context.Context, all map[version.Version][]string) error {
	raw, err := json.Marshal(all)
	if err == nil {
		err = r.remember(ctx, "evidence", raw)
	}
	return err
}

// read reads the file at an address.
func (r Request) read(ctx context.Context, uri string, limit int64) ([]byte, error) {
	at := strings.LastIndexByte(uri, '/') + 1
	dir := uri[:at]
	if dir == "" {
		dir = "."
	}
	place, err := r.Open(dir)
	if err != nil {
		return nil, err
	}
	return store.Read(ctx, place, uri[at:], limit)
}
