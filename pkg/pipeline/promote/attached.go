package promote

import (
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

// mayBeLegacy reports whether a release is signed in the legacy forms: its files
// say so, and where none is signed at all, nobody does.
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
// its platforms: the tags .sig and .att, by which evidence was attached before
// there were referrers. Like referrers they travel as they are; what they prove
// is for whoever verifies them. What is no evidence stays behind, and the image
// goes without it. A tag of the destination is never moved: it must hold what the
// source's does already.
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

// attachedTag is such a tag, and what it names.
type attachedTag struct {
	repo, tag string
	d         registry.Descriptor
}

// copyTag copies one such tag, if everything that it names is evidence.
func copyTag(ctx context.Context, a attachedTag, from From, to To) error {
	repo, tag, d := a.repo, a.tag, a.d
	node, err := registry.AttachedEvidence(ctx, from.Images, repo, d)
	var no *registry.NoEvidenceError
	if errors.As(err, &no) {
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
	if err := to.alone(ctx); err != nil {
		return err
	}
	// Whoever signs at the destination may have set the tag meanwhile.
	if there, err = a.isThere(ctx, to, node); err != nil || there {
		return err
	}
	return to.Images.Tag(ctx, repo, tag, d)
}

// isThere reports whether the destination has the tag, which must then attach
// what the source's does.
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

// contains demands that a tag of the destination has every layer that the
// source's has: whoever signs there adds to it.
func contains(name string, there, node *registry.Node) error {
	for _, l := range node.Layers {
		if !slices.ContainsFunc(there.Layers, func(o registry.Descriptor) bool { return o.Digest.Equal(l.Digest) }) {
			return &verdict.Error{Finding: verdict.Find(verdict.TagConflict, name, "the tag attaches other evidence, and not this").
				Differ(l.Digest.String(), there.Descriptor.Digest.String())}
		}
	}
	return nil
}
