package promote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// mayBeLegacy reports whether a release is signed in the legacy forms. The
// classes of its files say so; if no file is signed, it may be.
func mayBeLegacy(m manifest.Manifest) bool {
	signed := false
	for _, a := range m.Artifacts {
		if a.IsLegacy() {
			return true
		}
		signed = signed || a.Class == plan.Signature
	}
	return !signed
}

// copyAttached copies what older clients look for beside an image and each of
// its platforms: the tags .sig and .att, by which evidence was attached
// before there were referrers. Like referrers they are copied unverified;
// verifiers judge them. A tag with anything but evidence is not copied, and
// the image is promoted without it. A tag of the destination is never moved:
// it must contain what the source's contains.
func copyAttached(ctx context.Context, image Image, from From, to To) error {
	tags, err := from.Images.Tags(ctx, image.Repository)
	if err != nil || !slices.ContainsFunc(tags, isAttached) {
		return err
	}
	d := registry.Descriptor{MediaType: image.MediaType, Digest: image.Digest, Size: image.Size}
	graph, err := registry.Graph(ctx, from.Images, image.Repository, d)
	if err != nil {
		return err
	}
	return graph.Walk(func(n *registry.Node) error {
		for _, suffix := range []string{registry.SuffixSignatures, registry.SuffixAttestations} {
			if tag := registry.AttachedTag(n.Descriptor.Digest, suffix); slices.Contains(tags, tag) {
				d, err := from.Images.Resolve(ctx, image.Repository, tag)
				if err == nil {
					err = copyTag(ctx, attachedTag{image.Repository, tag, d}, from, to)
				}
				if err != nil {
					return fmt.Errorf("copying %s: %w", tag, err)
				}
			}
		}
		return nil
	})
}

func isAttached(tag string) bool {
	return strings.HasSuffix(tag, registry.SuffixSignatures) || strings.HasSuffix(tag, registry.SuffixAttestations)
}

// attachedTag is an evidence tag, and the manifest that it names.
type attachedTag struct {
	repo, tag string
	d         registry.Descriptor
}

// copyTag copies one evidence tag, if everything that it names is evidence.
func copyTag(ctx context.Context, a attachedTag, from From, to To) error {
	repo, tag, d := a.repo, a.tag, a.d
	node, err := registry.AttachedEvidence(ctx, from.Images, repo, d)
	if no, is := errors.AsType[*registry.NoEvidenceError](err); is {
		if to.Left != nil {
			to.Left(repo+":"+tag, no.Why)
		}
		return nil
	}
	if err != nil {
		return err
	}
	there, err := a.isThere(ctx, to, node)
	if err != nil || there {
		return err
	}
	if _, err := registry.Copy(ctx, to.Images, from.Images, repo, d); err != nil {
		return err
	}
	// Someone who signs at the destination may have set the tag in the
	// meantime.
	there, moved := a.isThere(ctx, to, node)
	if err := cmp.Or(to.checkExclusive(ctx), moved); err != nil || there {
		return err
	}
	return to.Images.Tag(ctx, repo, tag, d)
}

// isThere reports whether the destination has the tag, which must then attach
// at least what the source's tag does.
func (a attachedTag) isThere(ctx context.Context, to To, node *registry.Node) (bool, error) {
	held, err := to.Images.Resolve(ctx, a.repo, a.tag)
	switch {
	case errors.Is(err, registry.ErrNotFound):
		return false, nil
	case err != nil || held.Digest.Equal(a.d.Digest):
		return err == nil, err
	}
	there, err := registry.Graph(ctx, to.Images, a.repo, held)
	if err != nil {
		return false, err
	}
	return true, contains(a.repo+":"+a.tag, there, node)
}

// contains demands that a tag of the destination has every layer of the
// source's tag. It may have more: signing at the destination adds layers.
func contains(name string, there, node *registry.Node) error {
	for _, l := range node.Layers {
		if !slices.ContainsFunc(there.Layers, func(o registry.Descriptor) bool { return o.Digest.Equal(l.Digest) }) {
			return &verdict.Error{Finding: verdict.Find(verdict.TagConflict, name, "the tag attaches other evidence, but not the evidence to copy").
				Differ(l.Digest.String(), there.Descriptor.Digest.String())}
		}
	}
	return nil
}
