package registry

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Mend drops every manifest with a truncated file, for instance after a power
// failure: a file of it exists with another size. It is then written again as
// if it were missing. An index that is not JSON is started anew. Only the sole
// writer of a layout, which recreates what is missing, may call this.
func (l *Layout) Mend(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	index, err := l.index(ctx)
	var broken *strictjson.Error
	switch {
	case errors.Is(err, store.ErrNotFound) || errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.As(err, &broken) && broken.Code == strictjson.CodeSyntax:
		index = v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{}}
	case err != nil:
		return err
	default:
		had := len(index.Manifests)
		cut := map[string]bool{}
		for _, e := range index.Manifests {
			if d, err := fromWire(e); err == nil {
				cut[e.Digest.String()] = l.isCut(ctx, d, 1)
			}
		}
		index.Manifests = slices.DeleteFunc(index.Manifests, func(e v1.Descriptor) bool { return cut[e.Digest.String()] })
		if len(index.Manifests) == had {
			return nil
		}
	}
	return l.rewrite(ctx, index)
}

// isCut reports whether a file of a manifest, or of those that it lists, has
// the wrong size. Files that cannot be read for another reason are reported by
// their later reader.
func (l *Layout) isCut(ctx context.Context, d Descriptor, depth int) bool {
	if l.hasOtherSize(ctx, d) {
		return true
	}
	doc, _, err := readDocument(ctx, l, "", d)
	if err != nil {
		return false
	}
	parts := slices.Concat(doc.Layers, doc.Manifests)
	if doc.Config != nil {
		parts = append(parts, *doc.Config)
	}
	return slices.ContainsFunc(parts, func(p element) bool {
		id, err := digest.Parse(p.Digest)
		part := Descriptor{MediaType: p.MediaType, Digest: id, Size: p.Size}
		return err == nil && (l.hasOtherSize(ctx, part) || d.IsIndex() && depth > 0 && l.isCut(ctx, part, depth-1))
	})
}

// hasOtherSize reports whether the file of a descriptor exists with another
// size.
func (l *Layout) hasOtherSize(ctx context.Context, d Descriptor) bool {
	body, size, err := l.Blob(ctx, d.Digest)
	if err != nil {
		return false
	}
	_ = body.Close() // nothing was read
	return size != d.Size
}
