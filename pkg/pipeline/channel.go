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

// TokenChannel is the token name of the identity that signs channel indexes.
const TokenChannel = "channel"

// ChannelDraft is a channel index that is ready to be signed.
type ChannelDraft struct {
	Statement intoto.Statement
	Number    int
}

// TargetAt splits a file name, or the address of an object in a bucket.
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

// Channels updates the channel index at a target.
type Channels struct {
	*job
	to Target
}

// Channels returns the channel index at a target.
func (p *Pipeline) Channels(at Target) Channels { return Channels{p.job, at} }

// Draft drafts the next index: the named channels point to this release and
// are valid for life; the other channels keep their releases. The release
// must be public and not withdrawn. Draft signs nothing and needs no token.
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

// Sign signs an index as the identity in the role "channel" and writes it to
// its target, unless an index with the same or a higher number is there by
// then. The written index is read back and judged.
func (p Channels) Sign(ctx context.Context, d ChannelDraft) (verdict.Proof, error) {
	signer, err := p.signer(pointChannels().signs, p.Work, false)
	if err != nil {
		return verdict.Proof{}, err
	}
	w, err := p.OpenWriter(p.to.Dir)
	if err != nil {
		return verdict.Proof{}, verdict.Refuse(verdict.Usage, "--index", "%s is not writable: %v", p.to.Dir, err).
			Advise("with --index name the bucket or directory that serves this address; nothing was signed")
	}
	before, there, err := p.highest(ctx)
	if err != nil {
		return verdict.Proof{}, err
	}
	if before.Number() >= d.Number {
		return verdict.Proof{}, verdict.Refuse(verdict.ChannelStale, p.to.Name, "index %d was published in the meantime; the draft has number %d", before.Number(), d.Number)
	}
	began := p.Clock()
	bundle, e, err := signer.Statement(ctx, d.Statement)
	p.addSummary(Summary{Act: actChannel}, signer, began)
	if err != nil {
		return verdict.Proof{}, err
	}
	next, err := channel.Parse(e, p.Profile.Policy)
	if err := errors.Join(err, next.Follows(before)); err != nil {
		return verdict.Proof{}, fmt.Errorf("judging the signed index, which was not written: %w", err)
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

// write replaces exactly the index that the new one follows, or creates the
// file if there was none. An index that was written concurrently is kept.
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
		return verdict.Refuse(verdict.ChannelStale, p.to.Name, "another index was published first; ours was signed but not published: run the command again")
	}
	return err
}

// Forecast returns what signing a drafted index would need: the identity and
// the services.
func (p Channels) Forecast(ctx context.Context) (Forecast, error) {
	uri, err := p.Profile.Files(profile.Release, p.Version)
	if err != nil {
		return Forecast{}, err
	}
	o := &outlook{job: p.job, plan: plan.Plan{Name: p.Profile.Name, Version: p.Version}}
	return o.elsewhere(ctx, pointChannels(), "", "the index "+p.to.address(), uri)
}

// highest returns the index that the next one follows: the one at the target,
// or the one that the profile names if its number is higher. Otherwise a
// number could be used twice. The digest is that of the bundle at the target.
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
		return channel.Index{}, digest.Digest{}, fmt.Errorf("reading the index that the profile names: %w", err)
	}
	if public.Number() < x.Number() || public.Number() == 0 {
		return x, there, nil
	}
	return public, there, public.Follows(x)
}

// indexAt returns the index at a target and the digest of its bundle; both
// are zero if there is none. A file that does not verify as our index is an
// error, so it is never overwritten.
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
		return channel.Index{}, digest.Digest{}, fmt.Errorf("verifying the existing index %q: %w", at.Name, err)
	}
	x, err := channel.Parse(e, p.Profile.Policy)
	if err != nil {
		return channel.Index{}, digest.Digest{}, fmt.Errorf("judging the existing index %q: %w", at.Name, err)
	}
	return x, digest.Of(digest.SHA256, raw), nil
}

// published returns the manifest of a version from the release place.
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
		return manifest.Manifest{}, nil, verdict.Refuse(verdict.EvidenceMissing, v.String(), "not public: %s has no manifest", place.URI()).
			Advise("publish the release first: waybill release VERSION --confirm")
	case err != nil:
		return manifest.Manifest{}, nil, err
	case m.Version != v:
		return manifest.Manifest{}, nil, verdict.Refuse(verdict.Version, v.String(), "%s has the manifest of %s", place.URI(), m.Version)
	}
	return m, bundle, nil
}
