package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	channelindex "github.com/waybill-release/waybill/attestations/channel/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/channel"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// TokenChannel is the token name of the identity that tends the channels.
const TokenChannel = "channel"

// ChannelDraft is a channel index that is ready to be signed.
type ChannelDraft struct {
	Statement intoto.Statement
	Number    int
}

// TargetAt splits the name of a file, or the address of an object of a bucket.
func TargetAt(name string) Target {
	if i := strings.LastIndexByte(name, '/'); strings.Contains(name, "://") {
		return Target{Dir: name[:i+1], Name: name[i+1:]}
	}
	return Target{Dir: filepath.Dir(name), Name: filepath.Base(name)}
}

func (t Target) address() string {
	if strings.Contains(t.Dir, "://") {
		return t.Dir + t.Name
	}
	return filepath.Join(t.Dir, t.Name)
}

// Channels tends the index of channels that lies at a target.
type Channels struct {
	*job
	to Target
}

// Channels returns the index of channels that lies at a target.
func (p *Pipeline) Channels(at Target) Channels { return Channels{p.job, at} }

// Draft drafts the next index: the channels stand
// for this release from now on, for as long as life, and the others for what
// they stood for. The release must be public, and not be withdrawn. Nothing is
// signed, and no token is needed.
func (p Channels) Draft(ctx context.Context, names []string, life time.Duration) (ChannelDraft, error) {
	before, _, err := p.highest(ctx)
	if err != nil {
		return ChannelDraft{}, err
	}
	m, bundle, err := published(ctx, p.job, p.Version)
	if err != nil {
		return ChannelDraft{}, err
	}
	if m.Withdrawn != nil {
		return ChannelDraft{}, verdict.Refuse(verdict.Withdrawn, p.Version.String(), "withdrawn: %s", m.Withdrawn.Reason)
	}
	change := channel.Change{
		Name: m.Name, Channels: names, Release: channel.Release{Version: m.Version, Manifest: digest.SetOf(bundle)},
		Issued: p.Clock().UTC().Truncate(time.Second), Life: life,
	}
	said, manifests, err := before.Next(change, func(v version.Version) bool {
		gone, _, err := published(ctx, p.job, v)
		return err == nil && gone.Withdrawn != nil
	})
	if err != nil {
		return ChannelDraft{}, err
	}
	s, err := channelindex.New(said, manifests)
	return ChannelDraft{Statement: s, Number: said.Number}, err
}

// Sign signs an index as the identity in the role "channel", and writes
// it where it was drafted for, if nothing of its number or a higher one came
// there since. What was written is read back and judged.
func (p Channels) Sign(ctx context.Context, d ChannelDraft) (verdict.Proof, error) {
	signer, err := p.signer(pointChannels().signs, p.Work, false)
	if err != nil {
		return verdict.Proof{}, err
	}
	w, err := p.OpenWriter(p.to.Dir)
	if err != nil {
		return verdict.Proof{}, verdict.Refuse(verdict.Usage, "--index", "nothing can be written to %s: %v", p.to.Dir, err).
			Advise("name the bucket or directory behind it with --index; nothing was signed")
	}
	before, there, err := p.highest(ctx)
	if err != nil {
		return verdict.Proof{}, err
	}
	if before.Number() >= d.Number {
		return verdict.Proof{}, verdict.Refuse(verdict.ChannelStale, p.to.Name, "index %d was signed meanwhile; this one would be %d", before.Number(), d.Number)
	}
	began := p.Clock()
	bundle, e, err := signer.Statement(ctx, d.Statement)
	p.sum(Summary{Act: actChannel}, signer, began)
	if err != nil {
		return verdict.Proof{}, err
	}
	next, err := channel.Parse(e, p.Profile.Policy)
	if err := errors.Join(err, next.Follows(before)); err != nil {
		return verdict.Proof{}, fmt.Errorf("judging what was signed, which was not written: %w", err)
	}
	if err := p.write(ctx, w, store.Replacement{Old: there, New: bundle, MediaType: plan.MediaBundle}); err != nil {
		return verdict.Proof{}, err
	}
	written, _, err := p.indexAt(ctx, p.to)
	if err != nil {
		return verdict.Proof{}, fmt.Errorf("reading back %q: %w", p.to.Name, err)
	}
	return written.Proof(), written.Follows(next)
}

// write writes an index over the very one that it follows, or where
// there is none. One that came meanwhile stays.
func (p Channels) write(ctx context.Context, w store.Writer, r store.Replacement) error {
	at, err := p.openPlace(p.to.Dir)
	if err != nil {
		return err
	}
	if r.Old.IsZero() {
		err = w.Put(ctx, p.to.Name, int64(len(r.New)), bytes.NewReader(r.New), store.PutOptions{IfAbsent: true, MediaType: r.MediaType})
	} else {
		err = store.Replace(ctx, at, w, p.to.Name, r)
	}
	if errors.Is(err, store.ErrChanged) || errors.Is(err, store.ErrExists) {
		return verdict.Refuse(verdict.ChannelStale, p.to.Name, "another index was written meanwhile, and it stays; ours was signed and is nowhere: run the command again")
	}
	return err
}

// Forecast looks ahead at signing a drafted index: as whom, and with which
// services.
func (p Channels) Forecast(ctx context.Context) (Forecast, error) {
	uri, err := p.Profile.Files(profile.Release, p.Version)
	if err != nil {
		return Forecast{}, err
	}
	o := &outlook{job: p.job, plan: plan.Plan{Name: p.Profile.Name, Version: p.Version}}
	return o.elsewhere(ctx, pointChannels(), "", "the index "+p.to.address(), uri)
}

// highest is the index that the next one follows: the one at the target, or
// the one that the profile names if that has gone on, so that no number is
// given twice. The digest is of what lies at the target.
func (p Channels) highest(ctx context.Context) (channel.Index, digest.Digest, error) {
	x, there, err := p.indexAt(ctx, p.to)
	if err != nil || p.Profile.Channels.Index == "" {
		return x, there, err
	}
	at := TargetAt(p.Profile.Channels.Index)
	if at == p.to {
		return x, there, nil
	}
	public, _, err := p.indexAt(ctx, at)
	if err != nil {
		return channel.Index{}, digest.Digest{}, fmt.Errorf("looking at the index that the profile names: %w", err)
	}
	if public.Number() < x.Number() || public.Number() == 0 {
		return x, there, nil
	}
	return public, there, public.Follows(x)
}

// indexAt is the index that lies at a target, and the digest of its bundle;
// both are zero if there is none. One that
// is not ours is never written over.
func (p Channels) indexAt(ctx context.Context, at Target) (channel.Index, digest.Digest, error) {
	place, err := p.openPlace(at.Dir)
	if err != nil {
		return channel.Index{}, digest.Digest{}, err
	}
	raw, err := store.Read(ctx, place, at.Name, verify.MaxBundle)
	if errors.Is(err, store.ErrNotFound) {
		return channel.Index{}, digest.Digest{}, nil
	}
	if err != nil {
		return channel.Index{}, digest.Digest{}, err
	}
	e, err := p.verifier.Attestation(raw)
	if err != nil {
		return channel.Index{}, digest.Digest{}, fmt.Errorf("verifying the index that is there, %q: %w", at.Name, err)
	}
	x, err := channel.Parse(e, p.Profile.Policy)
	if err != nil {
		return channel.Index{}, digest.Digest{}, fmt.Errorf("judging the index that is there, %q: %w", at.Name, err)
	}
	return x, digest.Of(digest.SHA256, raw), nil
}

// published is the manifest of a version where users find it.
func published(ctx context.Context, j *job, v version.Version) (manifest.Manifest, []byte, error) {
	uri, err := j.Profile.Files(profile.Release, v)
	if err != nil {
		return manifest.Manifest{}, nil, err
	}
	place, err := j.openPlace(uri)
	if err != nil {
		return manifest.Manifest{}, nil, err
	}
	m, bundle, err := j.manifest(ctx, place)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return manifest.Manifest{}, nil, verdict.Refuse(verdict.EvidenceMissing, v.String(), "it is not public: %s holds no manifest", place.URI()).
			Advise("publish it first: waybill release VERSION --confirm lets out what is staged")
	case err != nil:
		return manifest.Manifest{}, nil, err
	case m.Version != v:
		return manifest.Manifest{}, nil, verdict.Refuse(verdict.Version, v.String(), "%s holds the manifest of %s", place.URI(), m.Version)
	}
	return m, bundle, nil
}
