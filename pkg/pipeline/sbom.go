package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/registry"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/workspace"
)

// SBOM writes the SBOM of every artifact, and of the release. Equal input
// gives equal documents, so doing it again changes nothing.
func (p *Pipeline) SBOM(ctx context.Context) error {
	planned, w, err := p.resume(ctx)
	if err != nil {
		return err
	}
	d := &describer{plan: planned, w: w, entries: map[digest.Digest]sbom.Entry{}, in: sbom.Input{
		Name: planned.Name, Version: planned.Version.String(), Created: w.Identity().Commit.Time, Namespace: planned.Files,
	}}
	return p.journaled(ctx, w, "sbom", func() error {
		if err := d.describeAll(ctx); err != nil {
			return err
		}
		p.Report("wrote %d SBOMs", len(d.all)+1)
		return nil
	})
}

// describer writes SBOMs in an order in which each can refer to those before.
type describer struct {
	plan    plan.Plan
	w       *workspace.Workspace
	in      sbom.Input
	entries map[digest.Digest]sbom.Entry
	all     []sbom.Entry
}

// describeAll goes from what contains nothing to what contains the rest.
func (d *describer) describeAll(ctx context.Context) error {
	for _, class := range []plan.Class{plan.Binary, plan.Other, plan.Archive, plan.Image} {
		for _, a := range d.plan.Artifacts {
			if a.Class != class {
				continue
			}
			if err := d.describe(ctx, a); err != nil {
				return fmt.Errorf("describing %q: %w", a.Name, err)
			}
		}
	}
	document, err := sbom.Release(d.in, d.all)
	if err != nil {
		return err
	}
	return d.put(ctx, d.plan.Name+".spdx.json", document)
}

func (d *describer) describe(ctx context.Context, a plan.Artifact) error {
	set, document, err := d.document(ctx, a)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, registry.ErrNotFound) {
		return verdict.Refuse(verdict.SealMissing, a.Name, "planned, but not in the build directory; run the build first")
	}
	if err != nil {
		return err
	}
	name := plan.SBOMName(a.Name)
	if err := d.put(ctx, name, document); err != nil {
		return err
	}
	entry := sbom.Entry{Artifact: a.Name, Digests: set, SBOM: name, SBOMDigest: digest.SetOf(document)}
	d.entries[set.SHA256] = entry
	d.all = append(d.all, entry)
	return nil
}

func (d *describer) document(ctx context.Context, a plan.Artifact) (digest.Set, []byte, error) {
	if a.Class == plan.Image {
		return d.image(ctx, a)
	}
	set, size, err := d.hash(ctx, a.Name)
	if err != nil {
		return digest.Set{}, nil, err
	}
	body, err := d.w.OpenFile(a.Name)
	if err != nil {
		return digest.Set{}, nil, err
	}
	defer body.Close()
	if a.Class == plan.Archive {
		document, err := sbom.Archive(d.in, a.Name, body, set, d.find)
		return set, document, err
	}
	document, err := sbom.Binary(d.in, a.Name, body, set, size)
	return set, document, err
}

func (d *describer) image(ctx context.Context, a plan.Artifact) (digest.Set, []byte, error) {
	images := d.w.Images()
	at, err := images.Resolve(ctx, a.Repository, d.plan.Version.String())
	if err != nil {
		return digest.Set{}, nil, err
	}
	node, err := registry.Graph(ctx, images, a.Repository, at)
	if err != nil {
		return digest.Set{}, nil, err
	}
	set := digest.SetOf(node.Raw)
	var platforms []sbom.ImagePlatform
	for _, child := range node.Children {
		platform := sbom.ImagePlatform{Platform: child.Descriptor.Platform, Digest: child.Descriptor.Digest, Files: d.filesOf(a, child.Descriptor.Platform)}
		for _, l := range child.Layers {
			platform.Layers = append(platform.Layers, l.Digest)
		}
		platforms = append(platforms, platform)
	}
	document, err := sbom.Image(d.in, a.Name, set, platforms)
	return set, document, err
}

// filesOf maps paths in an image to the artifacts that were put there.
func (d *describer) filesOf(a plan.Artifact, platform string) map[string]sbom.Entry {
	files := map[string]sbom.Entry{}
	for _, s := range d.plan.Steps {
		if s.Image == nil || s.Instance != a.Step {
			continue
		}
		for _, pf := range s.Image.Platforms {
			if pf.Platform != platform {
				continue
			}
			for path, artifact := range pf.Files {
				files[path] = d.byName(artifact)
			}
		}
	}
	return files
}

func (d *describer) byName(artifact string) sbom.Entry {
	for _, e := range d.all {
		if e.Artifact == artifact {
			return e
		}
	}
	return sbom.Entry{}
}

func (d *describer) find(sum digest.Digest) (sbom.Entry, bool) {
	e, ok := d.entries[sum]
	return e, ok
}

func (d *describer) hash(ctx context.Context, name string) (digest.Set, int64, error) {
	body, _, err := d.w.Files().Open(ctx, name)
	if err != nil {
		return digest.Set{}, 0, err
	}
	defer body.Close()
	return digest.Sum(body)
}

func (d *describer) put(ctx context.Context, name string, document []byte) error {
	return d.w.Writer().Put(ctx, name, int64(len(document)), bytes.NewReader(document), store.PutOptions{})
}
