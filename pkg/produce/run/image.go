package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/produce/image"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// image assembles a multi-platform image from a pinned base and outputs of
// earlier steps.
func (r *run) image(ctx context.Context, step plan.Step, scratch string) (outputs, error) {
	spec := step.Image
	if spec.Import != "" {
		return r.imported(ctx, step, scratch)
	}
	inputs, err := r.products.resources(step.Inputs())
	if err != nil {
		return outputs{}, err
	}
	base, pinned, err := r.base(ctx, spec.Base)
	if err != nil {
		return outputs{}, err
	}
	files, err := r.imageSpec(ctx, spec, base)
	if err != nil {
		return outputs{}, err
	}
	built, err := image.Build(ctx, files)
	if err != nil {
		return outputs{}, err
	}
	return r.imageOutputs(step, built, append(inputs, pinned...)), nil
}

// imported imports an image from an archive, which an earlier step or another
// project made. It reads its own copy, so provenance names exactly what is
// imported.
func (r *run) imported(ctx context.Context, step plan.Step, scratch string) (outputs, error) {
	at := surroundings{scratch: scratch}
	if err := r.addInputs(ctx, plan.Step{Take: step.Inputs(), Downloads: step.Downloads}, &at); err != nil {
		return outputs{}, err
	}
	f, err := os.Open(filepath.Join(scratch, path.Base(plan.InputDir), filepath.FromSlash(step.Image.Import)))
	if err != nil {
		return outputs{}, fmt.Errorf("importing %q: %w", step.Image.Import, err)
	}
	info, err := f.Stat()
	if err != nil {
		return outputs{}, errors.Join(fmt.Errorf("importing %q: %w", step.Image.Import, err), f.Close())
	}
	platforms := slice.Map(step.Image.Platforms, func(p plan.PlatformFiles) string { return p.Platform })
	built, err := image.Import(ctx, f, info.Size(), platforms)
	if err != nil {
		return outputs{}, errors.Join(fmt.Errorf("importing %q: %w", step.Image.Import, err), f.Close())
	}
	out := r.imageOutputs(step, built, at.inputs)
	out.done = f.Close
	return out, nil
}

// base opens the pinned base of a name.
func (r *run) base(ctx context.Context, name string) (image.Base, []provenance.Resource, error) {
	if name == plan.Scratch {
		return image.Scratch(), nil, nil
	}
	pin, ok := r.Source.Pins.Bases[name]
	if !ok {
		return nil, nil, verdict.Refuse(verdict.ConfigParse, plan.LockName, "the lock does not pin base %q", name)
	}
	ref := pin.Image + "@" + pin.Digest.String()
	base, err := r.store.Base(ctx, ref)
	if err != nil {
		return nil, nil, fmt.Errorf("fetching base %s: %w", ref, err)
	}
	return base, []provenance.Resource{pinnedImage("base "+name, ref, pin.Digest)}, nil
}

// pinnedImage names an image in provenance: one of a registry, or one in the
// source.
func pinnedImage(name, ref string, d digest.Digest) provenance.Resource {
	uri := "oci://" + ref
	if strings.HasPrefix(ref, "oci:") {
		uri = ref
	}
	return provenance.Resource{Name: name, URI: uri, Digest: map[string]string{"sha256": d.Hex()}}
}

func (r *run) imageSpec(ctx context.Context, spec *plan.ImageStep, base image.Base) (image.Spec, error) {
	commit := r.Source.Commit
	s := image.Spec{
		Base: base, Entrypoint: spec.Entrypoint, User: spec.User, Created: commit.Time,
		Annotations: map[string]string{
			"org.opencontainers.image.version":  r.Plan.Version.String(),
			"org.opencontainers.image.revision": commit.Commit,
			"org.opencontainers.image.source":   r.Plan.Repository,
		},
	}
	for _, pf := range spec.Platforms {
		goos, arch, _ := strings.Cut(pf.Platform, "/")
		p := image.Platform{OS: goos, Arch: arch}
		for _, place := range slices.Sorted(maps.Keys(pf.Files)) {
			name := pf.Files[place]
			m, err := r.products.taken(name)
			if err != nil {
				return image.Spec{}, err
			}
			p.Files = append(p.Files, image.File{Path: place, Mode: 0o755, Size: m.size, Open: func() (io.ReadCloser, error) {
				body, _, err := r.products.openMade(ctx, name)
				return body, err
			}})
		}
		s.Platforms = append(s.Platforms, p)
	}
	return s, nil
}

// imageOutputs are the index and the platforms, which are released together.
// The tag is only for the workspace; promotion tags last.
func (r *run) imageOutputs(step plan.Step, built *image.Built, inputs []provenance.Resource) outputs {
	index := step.Outputs[0]
	none := func(context.Context) error { return nil }
	out := outputs{inputs: inputs, inside: ourselves(), list: []output{{
		name: index, digests: digest.SetOf(built.Raw), size: int64(len(built.Raw)),
		release: func(ctx context.Context) error {
			images := r.Workspace.Images()
			d, err := built.Write(ctx, images, step.Image.Repository)
			if err != nil {
				return err
			}
			return images.Tag(ctx, step.Image.Repository, r.Plan.Version.ImageTag(), d)
		},
	}}}
	for _, c := range built.Children {
		o := output{name: index + "/" + c.Platform, digests: digest.SetOf(c.Raw), size: int64(len(c.Raw)), release: none}
		out.list = append(out.list, o)
		if also := step.Image.Also(c.Platform); also != "" {
			o.name, o.release = "oci/"+also, r.single(also, c)
			out.list = append(out.list, o)
		}
	}
	return out
}

// single puts the image of one platform into its own repository. Its blobs
// came with the index, which was released before.
func (r *run) single(repository string, c image.Child) func(context.Context) error {
	return func(ctx context.Context) error {
		d := registry.Descriptor{MediaType: registry.MediaTypeManifest, Digest: c.Digest, Size: int64(len(c.Raw))}
		images := r.Workspace.Images()
		if err := images.PushManifest(ctx, repository, d, c.Raw); err != nil {
			return err
		}
		return images.Tag(ctx, repository, r.Plan.Version.ImageTag(), d)
	}
}
