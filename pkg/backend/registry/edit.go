package registry

import (
	"bytes"
	"encoding/json"
	"maps"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

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
