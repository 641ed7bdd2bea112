package seal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// splitImage splits the name of an image in its place.
func splitImage(from string) (repo, tag string) {
	i := strings.LastIndexByte(from, ':')
	return from[:i], from[i+1:]
}

// compareImages compares images that another tool pushed with the plan.
func compareImages(ctx context.Context, req Request, from registry.Source) (findings []verdict.Finding, err error) {
	if len(req.Plan.GivenImages) == 0 {
		if from != nil {
			return nil, verdict.Refuse(verdict.Usage, "--from-images", "release.yaml lists no image")
		}
		return nil, nil
	}
	if from == nil {
		return nil, verdict.Refuse(verdict.Usage, "--from-images", "release.yaml lists %s; name the registry or layout that has them", plural.Of(len(req.Plan.GivenImages), "image"))
	}
	found := map[string]*registry.Node{}
	for _, g := range req.Plan.GivenImages {
		repo, tag := splitImage(g.From)
		d, err := from.Resolve(ctx, repo, tag)
		if errors.Is(err, registry.ErrNotFound) {
			findings = append(findings, verdict.Find(verdict.SealMissing, g.Name, "release.yaml needs %s for this image, which does not exist", g.From))
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("resolving %s: %w", g.From, err)
		}
		if found[g.Name], err = registry.Graph(ctx, from, repo, d); err != nil {
			return nil, fmt.Errorf("reading %s: %w", g.From, err)
		}
	}
	for _, g := range req.Plan.GivenImages {
		if node := found[g.Name]; node != nil {
			findings = append(findings, platforms(req.Plan, g, node, found)...)
		}
	}
	extra, err := extraImages(ctx, req.Plan, from)
	return append(findings, extra...), err
}

// platforms demands exactly the platforms of the plan, and that a
// single-platform image equals the one in the index.
func platforms(p plan.Plan, g plan.Given, node *registry.Node, found map[string]*registry.Node) (findings []verdict.Finding) {
	a, _ := p.Find(g.Name)
	if of, alone := p.Find(a.Of); alone {
		if index := found[of.Of]; index != nil && (index.Part(of.Platform) == nil || !index.Part(of.Platform).Descriptor.Digest.Equal(node.Descriptor.Digest)) {
			findings = append(findings, verdict.Find(verdict.Platform, g.Name, "not the image that %s has for %s", of.Of, of.Platform))
		}
		return findings
	}
	var planned []string
	for _, child := range p.Artifacts {
		if child.Class == plan.ImageChild && child.Of == a.Name {
			planned = append(planned, child.Platform)
			if node.Part(child.Platform) == nil {
				findings = append(findings, verdict.Find(verdict.SealMissing, child.Name, "%s has no such platform", g.From))
			}
		}
	}
	for _, child := range node.Children {
		platform := child.Descriptor.Platform
		if slices.Contains(planned, platform) {
			continue
		}
		f := verdict.Find(verdict.SealExtra, a.Name+"/"+platform, "%s has this platform, but release.yaml does not list it", g.From)
		if platform == "unknown/unknown" {
			f = verdict.Find(verdict.SealExtra, a.Name, "the index of %s contains an attestation of the build tool (%s); push the image without it, and list it under provenance or sbom", g.From, child.Descriptor.Digest)
		}
		findings = append(findings, f)
	}
	return findings
}

// extraImages finds unplanned images: in a layout any other image, in a
// registry, which also has other releases, tags that begin with the tag of
// this one.
func extraImages(ctx context.Context, p plan.Plan, from registry.Source) (findings []verdict.Finding, err error) {
	if layout, is := from.(*registry.Foreign); is {
		names, err := layout.References(ctx)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if !slices.ContainsFunc(p.GivenImages, func(g plan.Given) bool {
				repo, tag := splitImage(g.From)
				return layout.Means(name, repo, tag)
			}) {
				findings = append(findings, verdict.Find(verdict.SealExtra, name, "the layout has this image, but release.yaml does not list it"))
			}
		}
		return findings, nil
	}
	for _, g := range p.GivenImages {
		repo, tag := splitImage(g.From)
		tags, err := from.Tags(ctx, repo)
		if err != nil {
			return nil, err
		}
		for _, other := range tags {
			rest, begins := strings.CutPrefix(other, tag+"-")
			if begins && rest != "" && !slices.ContainsFunc(p.GivenImages, func(g plan.Given) bool { return g.From == repo+":"+other }) {
				findings = append(findings, verdict.Find(verdict.SealExtra, repo+":"+other, "the registry has this tag of the release, but release.yaml does not list it"))
			}
		}
	}
	return findings, nil
}

// importImages copies the images of the plan, with everything that refers to
// them, into the workspace, under the tag of the release.
func importImages(ctx context.Context, req Request, from registry.Source) error {
	images := req.Workspace.Images()
	for _, g := range req.Plan.GivenImages {
		repo, tag := splitImage(g.From)
		a, _ := req.Plan.Find(g.Name)
		src := registry.Renamed{Source: from, As: repo}
		d, err := src.Resolve(ctx, repo, tag)
		if err != nil {
			return fmt.Errorf("importing %s: %w", g.From, err)
		}
		if _, err := registry.Copy(ctx, images, src, a.Repository, d); err != nil {
			return fmt.Errorf("importing %s: %w", g.From, err)
		}
		if err := images.Tag(ctx, a.Repository, req.Plan.Version.ImageTag(), d); err != nil {
			return fmt.Errorf("importing %s: %w", g.From, err)
		}
	}
	for _, a := range req.Plan.Artifacts {
		if !a.IsImage() {
			continue
		}
		_, raw, err := findImage(ctx, req, a)
		if err != nil {
			return err
		}
		req.imported[a.Name] = digest.SetOf(raw)
	}
	return nil
}
