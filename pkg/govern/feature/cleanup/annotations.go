package cleanup

import (
	"context"
	"errors"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// hints are the annotations by which a referrer names the run that attached it.
var hints = []string{trace.AnnotationTrace, trace.AnnotationSpan, trace.AnnotationInitial}

// StripAnnotations has every bundle of ours refer to its image without naming
// the run that attached it. All else of the referrer stays as it is written, so
// one that was first attached without is the same again. The list that stands
// for referrers at registries without the interface repeats the annotations,
// and is written anew.
func (s *Sweeps) StripAnnotations() reconcile.Sweep {
	return sweep{s, strip, "no referrer names a run"}
}

// Annotated counts the bundles of ours that still name it.
func (s *Sweeps) Annotated() reconcile.Counter {
	return counter{Sweeps: s, visit: func(ctx context.Context, p *place, image registry.Descriptor, t *tally) error {
		found, err := p.annotated(ctx, image.Digest)
		for _, a := range found {
			t.add("%s", p.named(a.old.Digest))
		}
		return err
	}}
}

// annotated is a referrer with annotations, and as it is without.
type annotated struct {
	old, bare registry.Descriptor
	raw       []byte // of the bare one
}

// annotated finds the bundles of ours that refer to an image and name a run.
func (p *place) annotated(ctx context.Context, of digest.Digest) ([]annotated, error) {
	list, err := registry.BundleReferrers(ctx, p.at, p.path, of)
	if err != nil {
		return nil, err
	}
	var found []annotated
	for _, d := range list {
		if len(d.Annotations) > 0 && trace.FromAnnotations(d.Annotations).IsZero() && !named(d.Annotations) {
			continue // as the list has it, which costs nothing: a hint that is left proves nothing
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

// named reports whether annotations are there at all, ids or not.
func named(annotations map[string]string) bool {
	for _, name := range hints {
		if _, there := annotations[name]; there {
			return true
		}
	}
	return false
}

// hinted reads one referrer. What cannot be read is nobody's: whoever may write
// the repository can list anything.
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
	var long *registry.LimitError
	if errors.As(err, &long) {
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

// relists is how often a list is written again that another program wrote in
// the same moment.
const relists = 4

// replace has the bare referrer stand in the place of the annotated one, and
// answers why that one remains, if it does. The order is what keeps evidence
// findable: the bare one is pushed and found in the list, only then does the
// other leave it.
func (p *place) replace(ctx context.Context, of digest.Digest, a annotated) (why string, err error) {
	if p.held[a.old.Digest] {
		return "a tag names it; remove the tag first", nil
	}
	about, err := p.at.Referrers(ctx, p.path, a.old.Digest)
	if err != nil {
		return "", err
	}
	if len(about) > 0 {
		return "something refers to it, and would be lost with it; attach that to the image first", nil
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
		var drift *registry.DriftError
		var race *registry.TagError
		switch {
		case err == nil:
			return p.remove(ctx, of, a)
		case !errors.As(err, &drift) && !errors.As(err, &race):
			return "", err
		}
	}
	return "its list is written by somebody else at the same time", nil
}

// remove deletes the annotated referrer where the registry itself still lists
// it, and looks at the list as it is then.
func (p *place) remove(ctx context.Context, of digest.Digest, a annotated) (why string, err error) {
	listed, err := p.lists(ctx, of, a.old.Digest)
	if err != nil || !listed {
		return "", err
	}
	err = p.at.Delete(ctx, p.path, a.old.Digest)
	if errors.Is(err, registry.ErrKept) {
		return "the registry lists it and does not let us delete it; delete it as one who may", nil
	}
	if err != nil {
		return "", err
	}
	if err := registry.AwaitReferrers(ctx, p.at, p.path, of, a.bare); err != nil {
		return "", err
	}
	if listed, err = p.lists(ctx, of, a.old.Digest); listed {
		why = "the registry took its deletion, and lists it still"
	}
	return why, err
}

// lists reports whether a referrer stands in the list of its subject.
func (p *place) lists(ctx context.Context, of, referrer digest.Digest) (bool, error) {
	list, err := registry.BundleReferrers(ctx, p.at, p.path, of)
	for _, d := range list {
		if d.Digest.Equal(referrer) {
			return true, nil
		}
	}
	return false, err
}
