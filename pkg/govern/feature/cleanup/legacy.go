package cleanup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sigstore/cosign/v2/pkg/oci"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Backfill attaches as bundles all evidence of ours that older clients attached by
// the tags .att and .sig. A bundle is made from the legacy signature, so it proves the
// same. A .sig signs a payload that a bundle cannot contain: it is reported, unless a
// signature by the same identity is already attached as a bundle.
func (s *Sweeps) Backfill() reconcile.Sweep {
	return sweep{s, backfill, "all evidence in tags is attached as bundles"}
}

// ReemitTags also attaches every bundle of ours by the tag .att, for older clients.
// The bundles stay. Evidence that older clients cannot verify is reported: a log entry
// without an inclusion promise (logs of version 2 make none), a signature by a key, and
// a signature of the image without a .sig by the same identity, which only the holder
// of its key can make.
func (s *Sweeps) ReemitTags() reconcile.Sweep {
	return sweep{s, reemit, "all evidence in bundles is attached by tags"}
}

// proven is a bundle of ours, with its evidence.
type proven struct {
	evidence verify.Evidence
	bundle   []byte
}

// key is equal for the same evidence in two forms: the same statement, signed with
// the same certificate or key.
func (p proven) key() string {
	e := p.evidence
	said := digest.Of(digest.SHA256, e.Statement().Raw())
	return fmt.Sprint(said, e.Certificate(), e.Key())
}

func has(list []proven, one proven) bool {
	return slices.ContainsFunc(list, func(o proven) bool { return o.key() == one.key() })
}

// signs reports whether a list has a signature of the image by the same identity.
func signs(list []proven, kind string, by verify.Evidence) bool {
	return slices.ContainsFunc(list, func(o proven) bool {
		return o.evidence.Kind() == kind && policy.Who(o.evidence) == policy.Who(by)
	})
}

// legacy reads our evidence that a tag attaches to an image.
func (p *place) legacy(ctx context.Context, of digest.Digest, suffix string) (ours []proven, err error) {
	layers, err := registry.AttachedTo(ctx, p.at, p.path, of, suffix)
	if err != nil {
		return nil, err
	}
	for _, l := range layers {
		one, err := p.layer(ctx, l, of, suffix)
		switch {
		case verdict.OutcomeOf(err) == verdict.Unavailable:
			return nil, err
		case err == nil && p.by(one.evidence, of):
			ours = append(ours, one)
		}
	}
	return ours, nil
}

// layer verifies one layer of a tag, by its certificate or by a key of the policy.
func (p *place) layer(ctx context.Context, l oci.Signature, of digest.Digest, suffix string) (one proven, err error) {
	parse := legacy.ParseAttestation
	if suffix == registry.SuffixSignatures {
		parse = legacy.ParseLayer
	}
	m, err := parse(legacy.Certificate, l)
	if err != nil {
		if m, err = parse(legacy.Key, l); err != nil {
			return proven{}, err
		}
	}
	one.evidence, err = p.c.Finder.Prove(ctx, m, func(bundle []byte) (verify.Evidence, error) {
		one.bundle = bundle
		if m.IsAttestation() {
			return p.c.Verifier.Attestation(bundle)
		}
		return p.c.Verifier.Image(bundle, m.Payload(), of)
	})
	return one, err
}

// remains adds to the tally an image whose evidence is too large to read, or whose
// tag is not for evidence. An unavailable registry is an error.
func (p *place) remains(t *tally, of digest.Digest, err error) error {
	if verdict.OutcomeOf(err) == verdict.Unavailable || errors.Is(err, context.Canceled) {
		return err
	}
	t.add("%s: %v", p.named(of), err)
	return nil
}

// backfill writes, as a bundle, each attestation that an image has only under its
// legacy tag. A legacy signature without a bundle is added to the tally.
func backfill(ctx context.Context, p *place, image registry.Descriptor, t *tally) error {
	there, err := p.bundles(ctx, image.Digest)
	if err != nil {
		return p.remains(t, image.Digest, err)
	}
	attested, err := p.legacy(ctx, image.Digest, registry.SuffixAttestations)
	if err != nil {
		return p.remains(t, image.Digest, err)
	}
	for _, one := range attested {
		if has(there, one) {
			continue
		}
		d, raw, blobs := registry.BundleManifest(image, one.bundle, one.evidence.Kind())
		if err := (registry.Parcel{Descriptor: d, Raw: raw, Blobs: blobs}).PushTo(ctx, p.at, p.path); err != nil {
			return p.remains(t, image.Digest, err)
		}
		if err := registry.AwaitReferrers(ctx, p.at, p.path, image.Digest, d); err != nil {
			return p.remains(t, image.Digest, err)
		}
		there = append(there, one)
	}
	signed, err := p.legacy(ctx, image.Digest, registry.SuffixSignatures)
	if err != nil {
		return p.remains(t, image.Digest, err)
	}
	for _, one := range signed {
		if !signs(there, intoto.CosignSignature, one.evidence) {
			t.add("%s: the signature in %s by %s signs a payload that a bundle cannot contain; sign the image again with this identity",
				p.named(image.Digest), registry.AttachedTag(image.Digest, registry.SuffixSignatures), policy.Who(one.evidence))
		}
	}
	return nil
}

// unwritten is a bundle that no tag attaches, with the layer to attach.
type unwritten struct {
	proven
	layer oci.Signature
	why   error // why it cannot be written
}

// unwritten lists the bundles of an image that older clients do not find.
func (p *place) unwritten(ctx context.Context, of digest.Digest) (list []unwritten, err error) {
	there, err := p.bundles(ctx, of)
	if err != nil || len(there) == 0 {
		return nil, err
	}
	attested, err := p.legacy(ctx, of, registry.SuffixAttestations)
	if err != nil {
		return nil, err
	}
	signed, err := p.legacy(ctx, of, registry.SuffixSignatures)
	if err != nil {
		return nil, err
	}
	for _, one := range there {
		signature := one.evidence.Kind() == intoto.CosignSignature
		switch {
		case signature && signs(signed, verify.KindImage, one.evidence): // older clients find the .sig
		case signature:
			list = append(list, unwritten{proven: one, why: errors.New("older clients need a .sig by the same identity; sign with this identity in the legacy form")})
		case !has(attested, one):
			layer, err := p.asLayer(one)
			list = append(list, unwritten{one, layer, err})
			attested = append(attested, one)
		}
	}
	return list, nil
}

// asLayer converts a bundle to a layer of the tag .att.
func (p *place) asLayer(one proven) (oci.Signature, error) {
	m, err := legacy.Convert(one.bundle)
	if err != nil {
		return nil, err
	}
	return m.Attached(nil, p.c.Verifier.Chain(m.Certificate()), one.evidence.Kind())
}

// reemit adds missing evidence to the tag of an image, and reads it back as an older
// client does.
func reemit(ctx context.Context, p *place, image registry.Descriptor, t *tally) error {
	list, err := p.unwritten(ctx, image.Digest)
	if err != nil {
		return p.remains(t, image.Digest, err)
	}
	var add []oci.Signature
	for _, u := range list {
		if u.why == nil {
			add = append(add, u.layer)
			continue
		}
		t.add("%s: %s by %s: %v", p.named(image.Digest), u.evidence.Kind(), policy.Who(u.evidence), u.why)
	}
	if len(add) == 0 {
		return nil
	}
	if err := p.attach(ctx, image.Digest, add); err != nil {
		return p.remains(t, image.Digest, err)
	}
	there, err := p.legacy(ctx, image.Digest, registry.SuffixAttestations)
	if err != nil {
		return p.remains(t, image.Digest, err)
	}
	for _, u := range list {
		if u.why == nil && !has(there, u.proven) {
			t.add("%s: %s by %s was written in the legacy form, and does not verify there", p.named(image.Digest), u.evidence.Kind(), policy.Who(u.evidence))
		}
	}
	return nil
}

// attach adds layers to the tag .att of an image, and keeps the existing ones. It
// repeats until the tag has all of them, because another program may write the tag at
// the same time.
func (p *place) attach(ctx context.Context, of digest.Digest, add []oci.Signature) error {
	tag := registry.AttachedTag(of, registry.SuffixAttestations)
	var all []oci.Signature
	for range relists {
		there, err := registry.AttachedTo(ctx, p.at, p.path, of, registry.SuffixAttestations)
		if err != nil {
			return err
		}
		for _, l := range there {
			if media, err := l.MediaType(); err != nil || media != legacy.MediaEnvelope {
				return fmt.Errorf("tag %s contains %q, which is no attestation; nothing was added", tag, media)
			}
		}
		all = union(union(all, there), add)
		if len(union(there, all)) == len(there) {
			return nil
		}
		parcel, err := registry.AttachedManifest(all)
		if err != nil {
			return err
		}
		if err := parcel.PushTo(ctx, p.at, p.path); err != nil {
			return err
		}
		if err := p.at.TagManifest(ctx, p.path, tag, parcel.Descriptor, parcel.Raw); err != nil && verdict.FindingOf("", err).Code != verdict.TagRace {
			return err
		}
	}
	return fmt.Errorf("another program keeps writing tag %s at the same time", tag)
}

// union is all of one list, followed by the layers that only the other has.
func union(a, b []oci.Signature) []oci.Signature {
	all := slices.Clone(a)
	for _, l := range b {
		if !slices.ContainsFunc(all, func(o oci.Signature) bool { return same(o, l) }) {
			all = append(all, l)
		}
	}
	return all
}
