package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
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

// WithoutAnnotations returns a manifest as it was before some annotations were
// added: all other bytes stay, so the result equals a manifest made without
// them. A manifest without these annotations is returned unchanged.
func WithoutAnnotations(d Descriptor, raw []byte, names ...string) (Descriptor, []byte, error) {
	doc, err := parse(d, raw)
	if err != nil {
		return Descriptor{}, nil, err
	}
	left := maps.Clone(doc.Annotations)
	for _, name := range names {
		delete(left, name)
	}
	if len(left) == len(doc.Annotations) {
		return d, raw, nil
	}
	var member json.RawMessage // annotations is dropped when empty
	if len(left) > 0 {
		member = mustJSON(left)
	}
	if raw, err = edited(raw, "annotations", member); err != nil {
		return Descriptor{}, nil, &FormError{Digest: d.Digest, Err: err}
	}
	d.Digest, d.Size, d.Annotations = digest.Of(digest.SHA256, raw), int64(len(raw)), left
	return d, raw, nil
}

// edited replaces or removes one member of a JSON object. The others keep their
// bytes and their order.
func edited(raw []byte, key string, value json.RawMessage) ([]byte, error) {
	in := json.NewDecoder(bytes.NewReader(raw))
	out := bytes.NewBufferString("{")
	err := inObject(in, func(name string) error {
		var member json.RawMessage
		if err := in.Decode(&member); err != nil {
			return err
		}
		if name == key {
			member = value
		}
		if member == nil {
			return nil
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		out.Write(mustJSON(name))
		out.WriteByte(':')
		out.Write(member)
		return nil
	})
	out.WriteByte('}')
	return out.Bytes(), err
}

func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("registry: encoding a manifest: " + err.Error())
	}
	return raw
}
