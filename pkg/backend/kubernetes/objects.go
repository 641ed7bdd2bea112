package kubernetes

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The marks of an object: its part, and its name in the place.
const (
	labelPart      = "waybill.dev/part"
	annotationName = "waybill.dev/name"
	dataKey        = "object"
)

// maxObject is what a ConfigMap can contain.
const maxObject = 1 << 20

// configMap is one object. Written if absent it is immutable, so that it can only
// be removed.
type configMap struct {
	Metadata   Meta              `json:"metadata"`
	BinaryData map[string][]byte `json:"binaryData,omitempty"`
	Immutable  bool              `json:"immutable,omitempty"`
}

// objectName is the name of the ConfigMap: names of objects have characters that
// names in Kubernetes do not have.
func (p *Place) objectName(name string) string {
	sum := sha256.Sum256([]byte(name))
	return p.part + "." + hex.EncodeToString(sum[:20])
}

// content is an object whose ConfigMap has the right name.
func (p *Place) content(m configMap) (name string, raw []byte, err error) {
	name, raw = m.Metadata.Annotations[annotationName], m.BinaryData[dataKey]
	if err := store.CheckName(name); err != nil || m.Metadata.Name != p.objectName(name) || m.Metadata.Labels[labelPart] != p.part {
		return "", nil, verdict.Refuse(verdict.ConfigParse, p.URI(), "the ConfigMap %.253q is marked as an object of this place, but Waybill did not write it", m.Metadata.Name).
			Advise("find out who wrote it, and remove the label " + labelPart)
	}
	return name, raw, nil
}

// List implements [store.Place].
func (p *Place) List(ctx context.Context) (objects []store.Object, err error) {
	all, err := All[configMap](ctx, p, "api/v1", "configmaps", "labelSelector="+labelPart+"%3D"+p.part)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		name, raw, err := p.content(m)
		if err != nil {
			return nil, err
		}
		objects = append(objects, store.Object{Name: name, Size: int64(len(raw)), Generation: m.Metadata.ResourceVersion})
	}
	slices.SortFunc(objects, func(a, b store.Object) int { return cmp.Compare(a.Name, b.Name) })
	return objects, nil
}

// Open implements [store.Place].
func (p *Place) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	var m configMap
	if err := p.Do(ctx, http.MethodGet, p.At("api/v1", "configmaps/"+p.objectName(name)), nil, &m); err != nil {
		return nil, 0, err
	}
	_, raw, err := p.content(m)
	return io.NopCloser(bytes.NewReader(raw)), int64(len(raw)), err
}

// Put implements [store.Writer].
func (p *Place) Put(ctx context.Context, name string, size int64, r io.Reader, opts store.PutOptions) error {
	if err := store.CheckName(name); err != nil {
		return err
	}
	raw, err := io.ReadAll(io.LimitReader(r, maxObject+1))
	switch {
	case err != nil:
		return err
	case len(raw) > maxObject:
		return verdict.Refuse(verdict.Limit, name, "more than %d bytes", maxObject)
	case size >= 0 && size != int64(len(raw)):
		return fmt.Errorf("writing %q at %q: %d bytes, want %d", name, p.URI(), len(raw), size)
	}
	m := configMap{
		Metadata:   Meta{Name: p.objectName(name), Labels: map[string]string{labelPart: p.part}, Annotations: map[string]string{annotationName: name}},
		BinaryData: map[string][]byte{dataKey: raw}, Immutable: opts.IfAbsent,
	}
	if !opts.IfAbsent {
		err := p.Do(ctx, http.MethodPut, p.At("api/v1", "configmaps/"+m.Metadata.Name), m, &m)
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return p.Do(ctx, http.MethodPost, p.At("api/v1", "configmaps"), m, &m)
}
