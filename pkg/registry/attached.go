package registry

import (
	"context"
	"errors"
	"fmt"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/legacy"
)

// Tags by which clients attached evidence to a manifest before there were
// referrers: sha256-<digest> and one of these.
const (
	SuffixSignatures   = ".sig"
	SuffixAttestations = ".att"
	SuffixSBOM         = ".sbom"
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

// NoEvidenceError says why what a tag for evidence names is none.
type NoEvidenceError struct{ Tag, Why string }

// Error names both.
func (e *NoEvidenceError) Error() string { return fmt.Sprintf("%s is no evidence: %s", e.Tag, e.Why) }

// AttachedEvidence reads what a tag for evidence names, and refuses it with a
// [NoEvidenceError] unless it is one manifest whose layers all are evidence, by
// their bytes. A list of images has no layers of its own, and what only says
// that it is evidence could be run.
func AttachedEvidence(ctx context.Context, src Source, repo string, d Descriptor) (*Node, error) {
	none := func(format string, args ...any) (*Node, error) {
		return nil, &NoEvidenceError{Tag: repo + "@" + d.Digest.String(), Why: fmt.Sprintf(format, args...)}
	}
	if d.IsIndex() {
		return none("it is a list of images")
	}
	node, err := Graph(ctx, src, repo, d)
	var down *UnavailableError
	switch {
	case errors.As(err, &down), ctx.Err() != nil:
		return nil, err
	case err != nil:
		return none("%v", err)
	case len(node.Children) > 0 || node.Descriptor.IsIndex():
		return none("it is a list of images")
	case len(node.Layers) == 0 || len(node.Layers) > maxBundles:
		return none("it has %d layers", len(node.Layers))
	}
	left := int64(maxAttached)
	for _, layer := range node.Layers {
		if left -= layer.Size; layer.Size < 0 || left < 0 {
			return none("it has more than %d bytes", maxAttached)
		}
		body, err := src.Fetch(ctx, repo, layer)
		var raw []byte
		if err == nil {
			raw, err = fetchAll(body)
		}
		if err == nil {
			err = legacy.CheckLayer(layer.MediaType, raw)
		}
		if errors.As(err, &down) || ctx.Err() != nil {
			return nil, err
		}
		if err != nil {
			return none("%v", err)
		}
	}
	return node, nil
}
