package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/difference"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// copyOf are the files and images of one build of a release.
type copyOf struct {
	files  store.Place
	images registry.Source
}

// comparison compares two builds of a release. tag is that of images in got.
type comparison struct {
	want, got copyOf
	tag       string
}

// mismatch is the finding about an artifact that differs.
func mismatch(name string, list []difference.Difference) verdict.Finding {
	var where []string
	for _, d := range list[:min(len(list), 3)] {
		where = append(where, strings.TrimPrefix(d.Where, name+": "))
	}
	text := strings.Join(where, "; ")
	if more := len(list) - len(where); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return verdict.Find(verdict.RebuildMismatch, name, "built again with different bytes: %s", text).Differ(list[0].Want, list[0].Got)
}

// differences are the places in which the two builds of an artifact differ. Of
// equal artifacts, only the digest is computed.
func (c comparison) differences(ctx context.Context, a plan.Artifact, want digest.Digest) ([]difference.Difference, error) {
	if !a.IsImage() {
		sum, err := sumIn(ctx, c.got.files, a.Name)
		if err != nil || sum.Equal(want) {
			return nil, err
		}
		if sum, err = sumIn(ctx, c.want.files, a.Name); err == nil && !sum.Equal(want) {
			err = &verdict.Error{Finding: verdict.Find(verdict.Tampered, a.Name, "not the bytes that the manifest lists").Differ(want.String(), sum.String())}
		}
		if err != nil {
			return nil, err
		}
		return compared(a.Name, func(of copyOf) (io.ReadCloser, error) {
			body, _, err := of.files.Open(ctx, a.Name)
			return body, err
		}, c.want, c.got)
	}
	if _, err := c.got.images.Resolve(ctx, a.Repository, want.String()); !errors.Is(err, registry.ErrNotFound) {
		return nil, err
	}
	made, err := c.got.images.Resolve(ctx, a.Repository, c.tag)
	if err != nil {
		return nil, err
	}
	if a.Of != "" { // the difference is that of the index
		return []difference.Difference{{Where: a.Name + ": manifest", Want: want.String(), Got: "another one, in " + made.Digest.String()}}, nil
	}
	return c.image(ctx, a.Name, a.Repository, want, made.Digest)
}

func sumIn(ctx context.Context, place store.Place, name string) (digest.Digest, error) {
	body, _, err := place.Open(ctx, name)
	if err != nil {
		return digest.Digest{}, err
	}
	defer body.Close()
	sum, _, err := digest.SumSHA256(body)
	return sum, err
}

// compared compares the bodies that open returns of two sides.
func compared[T any](where string, open func(T) (io.ReadCloser, error), want, got T) ([]difference.Difference, error) {
	var sides []*io.SectionReader
	for _, side := range []T{want, got} {
		body, err := open(side)
		if err != nil {
			return nil, err
		}
		content, done, err := sbom.Readable(struct{ io.Reader }{body})
		if err = errors.Join(err, body.Close()); err != nil {
			return nil, err
		}
		defer done()
		sides = append(sides, io.NewSectionReader(content.ReaderAt, 0, content.Size))
	}
	return difference.Of(where, sides[0], sides[1]), nil
}

// imagePart is a manifest or a blob of an image, in one of the builds.
type imagePart struct {
	from registry.Source
	v1.Descriptor
}

// index is what an image index and a manifest consist of.
type index struct {
	Manifests []v1.Descriptor `json:"manifests"`
	Config    v1.Descriptor   `json:"config"`
	Layers    []v1.Descriptor `json:"layers"`
}

// image compares two images: platform by platform, layer by layer and file by
// file, and their configurations and manifests.
func (c comparison) image(ctx context.Context, where, repository string, want, got digest.Digest) (list []difference.Difference, err error) {
	open := func(p imagePart) (io.ReadCloser, error) {
		d, err := digest.Parse(p.Digest.String())
		if err != nil {
			return nil, err
		}
		found := registry.Descriptor{MediaType: string(p.MediaType), Digest: d, Size: p.Size}
		if p.MediaType == "" { // a manifest
			if found, err = p.from.Resolve(ctx, repository, d.String()); err != nil {
				return nil, err
			}
		}
		return p.from.Fetch(ctx, repository, found)
	}
	var walk func(where string, one, other v1.Hash) error
	compare := func(where string, one, other v1.Descriptor) error {
		if one.Digest == other.Digest {
			return nil
		}
		more, err := compared(where, open, imagePart{c.want.images, one}, imagePart{c.got.images, other})
		list = append(list, more...)
		return err
	}
	walk = func(where string, one, other v1.Hash) error {
		var parts [2]index
		for i, p := range []imagePart{{c.want.images, v1.Descriptor{Digest: one}}, {c.got.images, v1.Descriptor{Digest: other}}} {
			body, err := open(p)
			if err == nil {
				err = errors.Join(json.NewDecoder(body).Decode(&parts[i]), body.Close())
			}
			if err != nil {
				return err
			}
		}
		x, y := parts[0], parts[1]
		for i := range min(len(x.Manifests), len(y.Manifests)) {
			if a, b := x.Manifests[i], y.Manifests[i]; a.Digest != b.Digest {
				if err := walk(fmt.Sprintf("%s: %s", where, a.Platform), a.Digest, b.Digest); err != nil {
					return err
				}
			}
		}
		for i := range min(len(x.Layers), len(y.Layers)) {
			if err := compare(fmt.Sprintf("%s: layer %d", where, i), x.Layers[i], y.Layers[i]); err != nil {
				return err
			}
		}
		if err := compare(where+": config", x.Config, y.Config); err != nil {
			return err
		}
		return compare(where+": manifest", v1.Descriptor{Digest: one}, v1.Descriptor{Digest: other})
	}
	one, err := v1.NewHash(want.String())
	if err != nil {
		return nil, err
	}
	other, err := v1.NewHash(got.String())
	if err != nil {
		return nil, err
	}
	return list, walk(where, one, other)
}
