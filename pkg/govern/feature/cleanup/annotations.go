package cleanup

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/sigstore/cosign/v2/pkg/oci"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	"github.com/waybill-release/waybill/pkg/judge/census"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// hints are the annotations with the trace ids of the run that attached a referrer.
var hints = []string{trace.AnnotationTrace, trace.AnnotationSpan, trace.AnnotationInitial}

// StripAnnotations removes the trace annotations of every bundle of ours that
// refers to an image. Everything else in the referrer stays the same, so the result
// equals a referrer that was attached without them. At registries without the
// referrers API the list under a tag repeats the annotations, and is rewritten.
func (s *Sweeps) StripAnnotations() reconcile.Sweep {
	return sweep{s, strip, "no referrer has trace annotations"}
}

// Annotated counts the bundles of ours that still have trace annotations.
func (s *Sweeps) Annotated() reconcile.Counter {
	return counter{Sweeps: s, visit: func(ctx context.Context, p *place, image registry.Descriptor, t *tally) error {
		found, err := p.annotated(ctx, image.Digest)
		for _, a := range found {
			t.add("%s", p.named(a.old.Digest))
		}
		return err
	}}
}

// annotated is a referrer with annotations, and the same one without them.
type annotated struct {
	old, bare registry.Descriptor
	raw       []byte // of the bare one
}

// annotated finds the bundles of ours that refer to an image and have trace
// annotations.
func (p *place) annotated(ctx context.Context, of digest.Digest) (found []annotated, err error) {
	list, err := registry.BundleReferrers(ctx, p.at, p.path, of)
	if err != nil {
		return nil, err
	}
	for _, d := range list {
		if len(d.Annotations) > 0 && trace.FromAnnotations(d.Annotations).IsZero() && !named(d.Annotations) {
			continue // by the list, which saves a request: a remaining hint is harmless
		}
		a, is, err := p.hinted(ctx, d, of)
		if err != nil {
			return nil, err
		}
		if is {
			found = append(found, a)
		}
	}
	return found, nil
}

// named reports whether there are trace annotations, with valid ids or not.
func named(annotations map[string]string) bool {
	return slices.ContainsFunc(hints, func(name string) bool { _, there := annotations[name]; return there })
}

// hinted reads one referrer. One that cannot be read is not ours: anyone who can
// write to the repository can list anything.
func (p *place) hinted(ctx context.Context, d registry.Descriptor, of digest.Digest) (a annotated, is bool, err error) {
	strange := func(err error) (annotated, bool, error) {
		if verdict.OutcomeOf(err) == verdict.Unavailable {
			return annotated{}, false, err
		}
		return annotated{}, false, nil
	}
	node, err := registry.Graph(ctx, p.at, p.path, d)
	if err != nil {
		return strange(err)
	}
	bare, raw, err := registry.WithoutAnnotations(node.Descriptor, node.Raw, hints...)
	if err != nil {
		return strange(err)
	}
	if bare.Digest.Equal(d.Digest) || len(node.Layers) != 1 || !node.Subject.Digest.Equal(of) {
		return annotated{}, false, nil
	}
	bundle, err := registry.Read(ctx, p.at, p.path, node.Layers[0], registry.MaxManifest)
	if err != nil {
		return strange(err)
	}
	_, is = p.ours(bundle, of)
	return annotated{d, bare, raw}, is, nil
}

// strip replaces the annotated referrers of an image.
func strip(ctx context.Context, p *place, image registry.Descriptor, t *tally) error {
	found, err := p.annotated(ctx, image.Digest)
	if err != nil && verdict.FindingOf("", err).Code == verdict.Limit {
		t.add("those of %s: %v", p.named(image.Digest), err)
		return nil
	}
	if err != nil {
		return err
	}
	for _, a := range found {
		why, err := p.replace(ctx, image.Digest, a)
		if err != nil {
			return err
		}
		if why != "" {
			t.add("%s: %s", p.named(a.old.Digest), why)
		}
	}
	return nil
}

// relists is how often a list is written again after another program wrote it at
// the same time.
const relists = 4

// replace replaces the annotated referrer by the bare one, and returns the reason if
// it could not. The order keeps evidence findable: the bare one is pushed, and found
// in the list, before the annotated one is removed from the list.
func (p *place) replace(ctx context.Context, of digest.Digest, a annotated) (why string, err error) {
	if p.held[a.old.Digest] {
		return "a tag names this referrer; remove the tag first", nil
	}
	about, err := p.at.Referrers(ctx, p.path, a.old.Digest)
	if err != nil {
		return "", err
	}
	if len(about) > 0 {
		return "other manifests refer to this referrer, and would be lost; attach them to the image first", nil
	}
	swap := registry.Swap{Of: of, Old: a.old.Digest, New: a.bare.Digest}
	for range relists {
		listed, err := p.lists(ctx, of, a.bare.Digest)
		if err != nil {
			return "", err
		}
		if !listed {
			if err := p.at.PushManifest(ctx, p.path, a.bare, a.raw); err != nil {
				return "", err
			}
			if err := registry.AwaitReferrers(ctx, p.at, p.path, of, a.bare); err != nil {
				return "", err
			}
		}
		err = p.at.Relist(ctx, p.path, swap)
		if err == nil {
			return p.remove(ctx, of, a)
		}
		if code := verdict.FindingOf("", err).Code; code != "REPLICA_DRIFT" && code != verdict.TagRace {
			return "", err
		}
	}
	return "another program keeps writing the list of referrers at the same time", nil
}

// remove deletes the annotated referrer if the registry still lists it, and then
// reads the list again.
func (p *place) remove(ctx context.Context, of digest.Digest, a annotated) (why string, err error) {
	listed, err := p.lists(ctx, of, a.old.Digest)
	if err != nil || !listed {
		return "", err
	}
	err = p.at.Delete(ctx, p.path, a.old.Digest)
	if errors.Is(err, registry.ErrKept) {
		return "the registry lists this referrer and refuses to delete it; delete it with an account that may", nil
	}
	if err != nil {
		return "", err
	}
	if err := registry.AwaitReferrers(ctx, p.at, p.path, of, a.bare); err != nil {
		return "", err
	}
	if listed, err = p.lists(ctx, of, a.old.Digest); listed {
		why = "the registry accepted the deletion, but still lists this referrer"
	}
	return why, err
}

// lists reports whether a referrer is in the list of its subject.
func (p *place) lists(ctx context.Context, of, referrer digest.Digest) (bool, error) {
	list, err := registry.BundleReferrers(ctx, p.at, p.path, of)
	for _, d := range list {
		if d.Digest.Equal(referrer) {
			return true, nil
		}
	}
	return false, err
}

// ReferrersLeft counts what remains of evidence as referrers after the feature is
// Off: bundles that no tag attaches, and dangling pointers: an evidence tag for a
// digest that is gone, a referrer whose image is gone, and a list of referrers with a
// manifest that does not exist.
func (s *Sweeps) ReferrersLeft() reconcile.Counter {
	return counter{Sweeps: s, whole: broken, visit: func(ctx context.Context, p *place, image registry.Descriptor, t *tally) error {
		list, err := p.unwritten(ctx, image.Digest)
		for _, u := range list {
			t.add("%s: %s by %s, not attached by a tag", p.named(image.Digest), u.evidence.Kind(), policy.Who(u.evidence))
		}
		return err
	}}
}

// broken counts the pointers to digests that do not exist in the repository.
func broken(p *place, t *tally) {
	var want, have []census.Item
	seen := map[string]bool{}
	for _, at := range p.points {
		if seen[at.from] {
			continue // a list may name a manifest twice
		}
		seen[at.from] = true
		item := census.Item{Name: at.from, Digests: digest.Set{SHA256: at.to}}
		want = append(want, item)
		if p.there[at.to] {
			have = append(have, item)
		}
	}
	for _, f := range census.Compare(want, have) {
		t.add("%s points to %s, which does not exist", f.Subject, f.Want)
	}
}

// same reports whether two layers of a tag are equal.
func same(a, b oci.Signature) bool {
	one, _ := a.Annotations() // a layer that was read or made returns no error
	two, _ := b.Annotations()
	of, _ := a.Payload()
	other, _ := b.Payload()
	return bytes.Equal(of, other) && maps.Equal(one, two)
}
