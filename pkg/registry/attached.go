package registry

import (
	"context"
	"errors"

	"github.com/waybill-release/waybill/pkg/digest"
)

// Tags by which clients attached evidence to a manifest before there were
// referrers: sha256-<digest> and one of these.
const (
	SuffixSignatures   = ".sig"
	SuffixAttestations = ".att"
)

// maxAttached bounds all that is attached by one tag.
const maxAttached = 64 << 20

// Attached is one layer of such a tag. The annotations are part of it.
type Attached struct {
	Descriptor Descriptor
	Bytes      []byte
}

// AttachedTo returns the layers of the tag that attaches evidence to a
// manifest, in their order. None is not an error. Whoever may write the
// repository may write the tag, so nothing is known of them but their bytes.
func AttachedTo(ctx context.Context, src Source, repo string, d digest.Digest, suffix string) ([]Attached, error) {
	tagged, err := src.Resolve(ctx, repo, AttachedTag(d, suffix))
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	node, err := Graph(ctx, src, repo, tagged)
	if err != nil {
		return nil, err
	}
	if len(node.Layers) > maxBundles {
		return nil, &LimitError{Place: repo, What: "layers of evidence about one image", Limit: maxBundles}
	}
	var list []Attached
	var size int64
	for _, layer := range node.Layers {
		if size += layer.Size; layer.Size > maxAttached || size > maxAttached {
			return nil, &LimitError{Place: repo, What: "size of evidence about one image", Limit: maxAttached}
		}
		body, err := src.Fetch(ctx, repo, layer)
		if err != nil {
			return nil, err
		}
		raw, err := fetchAll(body)
		if err != nil {
			return nil, err
		}
		list = append(list, Attached{Descriptor: layer, Bytes: raw})
	}
	return list, nil
}
