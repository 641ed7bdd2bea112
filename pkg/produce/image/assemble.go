package image

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// child assembles the image of one platform. The base is read under ctx,
// because its layers are read long after the group of this build is done.
func (s Spec) child(ctx, group context.Context, p Platform) (Child, error) {
	image, err := s.Base.Image(ctx, p.String())
	if err != nil {
		return Child{}, fmt.Errorf("reading base for %s: %w", p, err)
	}
	below, err := readDocuments(image, p)
	if err != nil {
		return Child{}, err
	}
	top, err := newLayer(group, p.Files, s.created())
	if err != nil {
		return Child{}, fmt.Errorf("packing files for %s: %w", p, err)
	}
	c := Child{Platform: p.String(), Layers: append(below.layers, top)}
	if c.ConfigRaw, err = json.Marshal(s.config(below.config, c)); err != nil {
		return Child{}, fmt.Errorf("encoding configuration for %s: %w", p, err)
	}
	if c.Raw, err = json.Marshal(manifestOf(c, s.annotations())); err != nil {
		return Child{}, fmt.Errorf("encoding manifest for %s: %w", p, err)
	}
	c.Digest = digest.Of(digest.SHA256, c.Raw)
	return c, nil
}

// manifestOf is the manifest of a child whose configuration and layers are
// known.
func manifestOf(c Child, annotations map[string]string) v1.Manifest {
	m := v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Layers: []v1.Descriptor{},
		Config: describe(types.OCIConfigJSON, c.ConfigRaw), Annotations: annotations,
	}
	for _, l := range c.Layers {
		m.Layers = append(m.Layers, v1.Descriptor{
			MediaType: types.MediaType(l.Descriptor.MediaType), Digest: hash(l.Descriptor.Digest), Size: l.Descriptor.Size,
		})
	}
	return m
}

// config is a new configuration: what the base says about running, our files
// and our time. Information that only the base's builder could know is left
// out.
func (s Spec) config(base v1.ConfigFile, c Child) v1.ConfigFile {
	at := v1.Time{Time: s.created()}
	run := base.Config
	run.Image, run.Hostname = "", ""
	run.Entrypoint, run.Cmd = slices.Clone(s.Entrypoint), nil
	run.User = cmp.Or(s.User, run.User)
	out := v1.ConfigFile{
		Architecture: base.Architecture, OS: base.OS, OSVersion: base.OSVersion, OSFeatures: base.OSFeatures,
		Created: at, Config: run,
		History: append(slices.Clone(base.History), v1.History{Created: at, CreatedBy: "waybill", Comment: "files of the release"}),
		RootFS:  v1.RootFS{Type: "layers", DiffIDs: slice.Map(c.Layers, func(l Layer) v1.Hash { return hash(l.DiffID) })},
	}
	return out
}

// indexOf lists the children, with the platforms in their configurations,
// which are the requested ones.
func indexOf(children []Child, annotations map[string]string) (*Built, error) {
	list := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Annotations: annotations}
	for _, c := range children {
		var config v1.ConfigFile
		if err := json.Unmarshal(c.ConfigRaw, &config); err != nil {
			return nil, fmt.Errorf("reading configuration for %s: %w", c.Platform, err)
		}
		d := describe(types.OCIManifestSchema1, c.Raw)
		if d.Platform = config.Platform(); normal(d.Platform.OS+"/"+d.Platform.Architecture+"/"+d.Platform.Variant) == c.Platform {
			d.Platform.Variant = "" // the default variant
		}
		list.Manifests = append(list.Manifests, d)
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("encoding index: %w", err)
	}
	return &Built{Raw: raw, Children: children, Descriptor: registry.Descriptor{
		MediaType: registry.MediaTypeIndex, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw)),
		Annotations: list.Annotations,
	}}, nil
}

func (s Spec) annotations() map[string]string {
	all := map[string]string{AnnotationCreated: s.created().Format(time.RFC3339)}
	maps.Copy(all, s.Annotations)
	return all
}

func describe(mediaType types.MediaType, raw []byte) v1.Descriptor {
	return v1.Descriptor{MediaType: mediaType, Digest: hash(digest.Of(digest.SHA256, raw)), Size: int64(len(raw))}
}

func hash(d digest.Digest) v1.Hash {
	return v1.Hash{Algorithm: d.Algorithm().String(), Hex: d.Hex()}
}
