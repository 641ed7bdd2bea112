package inspect

import (
	"context"
	"errors"
	"strconv"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// OfImage describes an image: the manifest that a tag or a digest names, the
// manifests below it, and the bundles that refer to each.
func OfImage(ctx context.Context, src registry.Source, repo, reference string) (Document, error) {
	graph, err := registry.Target{Source: src, Repository: repo}.Graph(ctx, reference)
	if err != nil {
		return Document{}, err
	}
	return ofNode(ctx, src, repo, graph)
}

func ofNode(ctx context.Context, src registry.Source, repo string, n *registry.Node) (Document, error) {
	d := Document{Kind: Image, Digest: n.Descriptor.Digest}
	d.say("media type", n.Descriptor.MediaType)
	d.say("platform", n.Descriptor.Platform)
	d.say("size", strconv.FormatInt(n.Descriptor.Size, 10))
	if len(n.Layers) > 0 {
		d.say("config", n.Config.Digest.String())
	}
	for _, l := range n.Layers {
		d.say("layer", l.Digest.String()+" "+l.MediaType)
	}
	bundles, err := registry.Bundles(ctx, src, repo, n.Descriptor.Digest)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return Document{}, err
	}
	d.say("bundles", strconv.Itoa(len(bundles)))
	for _, raw := range bundles {
		part, err := Describe(raw)
		if err != nil { // anyone may attach anything
			part = Document{Kind: Unreadable}
			part.say("why", string(verdict.FindingOf("", err).Code)+" "+err.Error())
		}
		d.Parts = append(d.Parts, part)
	}
	for _, child := range n.Children {
		part, err := ofNode(ctx, src, repo, child)
		if err != nil {
			return Document{}, err
		}
		d.Parts = append(d.Parts, part)
	}
	return d, nil
}
