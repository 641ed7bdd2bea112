package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/difference"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/tool/slice"
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
	where := slice.Map(list[:min(len(list), 3)], func(d difference.Difference) string { return strings.TrimPrefix(d.Where, name+": ") })
	text := strings.Join(where, "; ")
	if more := len(list) - len(where); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return verdict.Find(verdict.RebuildMismatch, name, "built again with different bytes: %s", text).Differ(list[0].Want, list[0].Got)
}

// judge compares artifacts, adds a finding about each that differs, and returns
// the others.
func (c comparison) judge(ctx context.Context, v *verdict.Verdict, all []manifest.Artifact) (same []intoto.Subject, err error) {
	for _, a := range all {
		list, err := c.differences(ctx, a.Artifact, a.Digests.SHA256)
		switch {
		case err != nil:
			return same, err
		case len(list) == 0:
			same = append(same, intoto.Subject{Name: a.Name, Digests: a.Digests})
		default:
			v.Add(mismatch(a.Name, list))
		}
	}
	return same, nil
}

// differences are the places in which the two builds of an artifact differ. Of
// equal artifacts, only the digest is computed.
func (c comparison) differences(ctx context.Context, a plan.Artifact, want digest.Digest) ([]difference.Difference, error) {
	if a.IsImage() {
		return c.images(ctx, a, want)
	}
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
	list, err := differ(a.Name, func(of copyOf) (io.ReadCloser, int64, error) { return of.files.Open(ctx, a.Name) }, c.want, c.got)
	if err == nil && len(list) == 0 { // a place served other bytes the second time
		err = verdict.Refuse(verdict.Tampered, a.Name, "its bytes changed while they were compared")
	}
	return list, err
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

// differ compares what open returns of two sides.
func differ[T any](where string, open func(T) (io.ReadCloser, int64, error), want, got T) ([]difference.Difference, error) {
	a, done, err := inPlace(open(want))
	if err != nil {
		return nil, err
	}
	defer done()
	b, done, err := inPlace(open(got))
	if err != nil {
		return nil, err
	}
	defer done()
	return difference.Of(where, a, b)
}

// inPlace gives access to any offset of a body, until done is called. One that is
// no file of this machine is stored first.
func inPlace(body io.ReadCloser, size int64, err error) (at *io.SectionReader, done func(), _ error) {
	if err != nil {
		return nil, nil, err
	}
	if file, is := body.(io.ReaderAt); is {
		return io.NewSectionReader(file, 0, size), func() { _ = body.Close() }, nil // it is only read
	}
	defer body.Close()
	content, done, err := sbom.Readable(body)
	return io.NewSectionReader(content, 0, content.Size), done, err
}

// images compares two images.
func (c comparison) images(ctx context.Context, a plan.Artifact, want digest.Digest) ([]difference.Difference, error) {
	if _, err := c.got.images.Resolve(ctx, a.Repository, want.String()); !errors.Is(err, registry.ErrNotFound) {
		return nil, err
	}
	made, err := c.got.images.Resolve(ctx, a.Repository, c.tag)
	if err != nil {
		return nil, err
	}
	if a.Of != "" { // the difference is that of the index
		return []difference.Difference{{Where: a.Name + ": manifest", Want: want.String(), Got: "another one, in the index " + made.Digest.String()}}, nil
	}
	published, err := c.want.images.Resolve(ctx, a.Repository, want.String())
	if err != nil {
		return nil, err
	}
	x, err := registry.Graph(ctx, c.want.images, a.Repository, published)
	if err != nil {
		return nil, err
	}
	y, err := registry.Graph(ctx, c.got.images, a.Repository, made)
	if err != nil {
		return nil, err
	}
	return c.nodes(ctx, a, a.Name, [2]*registry.Node{x, y})
}

// nodes compares two manifests: platform by platform, layer by layer and file by
// file, then their configurations, and their own bytes.
func (c comparison) nodes(ctx context.Context, a plan.Artifact, where string, of [2]*registry.Node) (list []difference.Difference, err error) {
	x, y := of[0], of[1]
	if x.Descriptor.Digest.Equal(y.Descriptor.Digest) {
		return nil, nil
	}
	for i := range min(len(x.Children), len(y.Children)) {
		more, err := c.nodes(ctx, a, where+": "+x.Children[i].Descriptor.Platform, [2]*registry.Node{x.Children[i], y.Children[i]})
		if list = append(list, more...); err != nil {
			return nil, err
		}
	}
	type blob struct {
		from registry.Source
		registry.Descriptor
	}
	compare := func(name string, one, other registry.Descriptor) error {
		if one.Digest == other.Digest {
			return nil
		}
		more, err := differ(where+": "+name, func(b blob) (io.ReadCloser, int64, error) {
			body, err := b.from.Fetch(ctx, a.Repository, b.Descriptor)
			return body, b.Size, err
		}, blob{c.want.images, one}, blob{c.got.images, other})
		list = append(list, more...)
		return err
	}
	for i := range min(len(x.Layers), len(y.Layers)) {
		if err := compare(fmt.Sprintf("layer %d", i), x.Layers[i], y.Layers[i]); err != nil {
			return nil, err
		}
	}
	if err := compare("config", x.Config, y.Config); err != nil {
		return nil, err
	}
	more, err := difference.Of(where+": manifest", io.NewSectionReader(bytes.NewReader(x.Raw), 0, int64(len(x.Raw))), io.NewSectionReader(bytes.NewReader(y.Raw), 0, int64(len(y.Raw))))
	return append(list, more...), err
}
