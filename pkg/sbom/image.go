package sbom

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// ImagePlatform is the image of one platform.
type ImagePlatform struct {
	Platform string // "linux/amd64"
	// Digest is that of the manifest, Config that of the configuration. An
	// image saved by docker save has only the latter.
	Digest, Config digest.Digest
	Layers         []Layer
	// Base is the image it was built on, "host/repository@sha256:…"; "" if
	// there is none or it is unknown.
	Base string
	// Files maps paths in the image to the artifacts that were put there.
	Files  map[string]Entry
	strong digest.Digest // SHA-512 of the manifest, zero if its bytes were not read
}

// ImageContent is an image of one or several platforms.
type ImageContent struct {
	// Index are the digests of the index, or of the manifest if there is one
	// platform only, as the registry serves it; or of a file that holds the
	// image.
	Index     digest.Set
	Platforms []ImagePlatform
	// Repository is where the image is published; its last element is the name
	// in package URLs. Without a repository there is no package URL.
	Repository string
	// Layers caches layers across images, if it is not nil.
	Layers *Layers
}

// Image describes an image: each platform with its layers, its base, the
// artifacts that were put in, and the contents of the layers: packages of apk
// and dpkg, and Go programs, each with the layer that brought it. Files are
// covered by the digests of the layers and not listed one by one.
func Image(ctx context.Context, in Input, artifact string, c ImageContent) (Made, error) {
	if err := in.check(artifact); err != nil {
		return Made{}, err
	}
	if c.Index.SHA256.IsZero() {
		return Made{}, verdict.Refuse(verdict.SBOMSubject, artifact, "no digest to describe")
	}
	if len(c.Platforms) == 0 {
		return Made{}, verdict.Refuse(verdict.Platform, artifact, "an image without platforms")
	}
	if c.Layers == nil {
		c.Layers = &Layers{}
	}
	b := in.draft(artifact, c.Index)
	b.subject().Purpose = spdx.Container
	if !c.Platforms[0].Digest.IsZero() { // an image without a manifest is not served
		b.subject().PURL = ociURL(c.Repository, c.Index.SHA256, "")
	}
	b.subject().Comment = "The checksum is that of the image index or manifest, as the registry serves it, or of the file that holds the image."
	sorted := slices.SortedFunc(slices.Values(c.Platforms), func(x, y ImagePlatform) int {
		return strings.Compare(x.Platform, y.Platform)
	})
	for i, p := range sorted {
		if p.Platform == "" || p.identity().Algorithm() != digest.SHA256 || (i > 0 && p.Platform == sorted[i-1].Platform) {
			return Made{}, verdict.Refuse(verdict.Platform, artifact, "platform %q: missing name or digest, or duplicate platform", p.Platform)
		}
		if err := b.platform(ctx, artifact, p, c); err != nil {
			return Made{}, err
		}
	}
	return b.made(), nil
}

func (p ImagePlatform) identity() digest.Digest {
	if p.Digest.IsZero() {
		return p.Config
	}
	return p.Digest
}

func (b *builder) platform(ctx context.Context, artifact string, p ImagePlatform, c ImageContent) error {
	image := spdx.Package{
		ID: elementID("Image", p.Platform), Name: artifact + "/" + p.Platform, Version: b.in.Version, Purpose: spdx.Container, Supplier: b.in.supplier(),
	}
	if !p.Digest.IsZero() {
		image.Digests, image.PURL = digest.Set{SHA256: p.Digest}, ociURL(c.Repository, p.Digest, p.Platform)
	}
	if !p.Config.IsZero() {
		image.Comment = sbomcheck.Configuration + p.Config.String() + "."
	}
	id := b.add(image)
	b.relate(artifactID, spdx.Contains, id, p.Platform)
	layers := make([]string, len(p.Layers))
	for i, l := range p.Layers {
		if l.Digest.Algorithm() != digest.SHA256 {
			return verdict.Refuse(verdict.SBOMSubject, artifact, "layer %d of %s has no SHA-256", i, p.Platform)
		}
		element := spdx.Package{
			ID: elementID("Layer", l.Digest.String()), Name: l.Digest.String(), Purpose: spdx.Archive, Digests: digest.Set{SHA256: l.Digest},
		}
		if !l.DiffID.IsZero() && !l.DiffID.Equal(l.Digest) {
			element.Comment = "Uncompressed " + l.DiffID.String() + "."
		}
		layers[i] = b.add(element)
		b.relate(id, spdx.Contains, layers[i], fmt.Sprintf("layer %d", i))
	}
	if p.Base != "" {
		b.relate(id, spdx.DescendantOf, b.add(base(p.Base)), "base image")
	}
	for _, at := range slices.Sorted(maps.Keys(p.Files)) {
		e := p.Files[at]
		if e.Artifact == "" || e.Digests.SHA256.IsZero() {
			return verdict.Refuse(verdict.SBOMSubject, artifact, "file %q of %s belongs to no known artifact", at, p.Platform)
		}
		b.relate(id, spdx.Contains, b.entry(e), "at "+at)
	}
	return b.contents(ctx, id, p, c.Layers)
}

func (b *builder) contents(ctx context.Context, id string, p ImagePlatform, cache *Layers) error {
	if err := cache.ahead(ctx, p.Layers); err != nil {
		return err
	}
	root, layers := newRootFS(), tree{}
	for i, l := range p.Layers {
		if l.Open == nil {
			b.unexamined([]string{fmt.Sprintf("layer %s of %s: its bytes were not available", l.Digest, p.Platform)})
			continue
		}
		f, err := cache.factsOf(ctx, l)
		if err != nil {
			return err
		}
		b.unexamined(b.newParts(sbomcheck.NotExamined, f.incomplete))
		b.seen(b.newParts(sbomcheck.SeenOnly, f.seen))
		root.apply(i, f)
		layers = append(layers, f)
	}
	b.unexamined(b.newParts(sbomcheck.NotExamined, append(layers.unreadDatabases(), layers.crossed()...)))
	release := (&facts{releases: root.releases}).release() // as the image names itself
	if system := b.distribution(release); system != "" {
		b.relate(id, spdx.Contains, system, "operating system")
	}
	for _, f := range root.packages() {
		layer := elementID("Layer", p.Layers[f.layer].Digest.String())
		pkg := b.installed(f.Package, release, "listed in "+f.database)
		b.relateOnce(layer, spdx.Contains, pkg, "")
		b.relateOnce(id, spdx.Contains, pkg, fmt.Sprintf("layer %d", f.layer))
	}
	for _, name := range slices.Sorted(maps.Keys(root.programs)) {
		b.programIn(id, name, p, root.programs[name])
	}
	return nil
}

func (b *builder) programIn(image, name string, p ImagePlatform, at placed[program]) {
	layer := p.Layers[at.layer].Digest.String()
	file := at.what.file
	file.ID = elementID("Program", name+"@"+file.Digests.SHA256.String())
	if !b.once[file.ID] {
		b.once[file.ID] = true
		b.draft.Files = append(b.draft.Files, file)
		b.program(file.ID, at.what.bin, "")
	}
	b.relateOnce(elementID("Layer", layer), spdx.Contains, file.ID, "")
	b.relateOnce(image, spdx.Contains, file.ID, fmt.Sprintf("layer %d", at.layer))
}

// relateOnce is relate for relationships that several platforms share.
func (b *builder) relateOnce(from, kind, to, comment string) {
	key := from + " " + kind + " " + to
	if !b.once[key] {
		b.once[key] = true
		b.relate(from, kind, to, comment)
	}
}

// newParts returns the parts that are not in the document yet.
func (b *builder) newParts(what string, parts []string) (list []string) {
	for _, part := range parts {
		if key := what + part; !b.once[key] {
			b.once[key] = true
			list = append(list, part)
		}
	}
	return list
}

// entry adds another artifact of the release, linked to its own document.
func (b *builder) entry(e Entry) string {
	p := spdx.Package{
		ID:   elementID("Entry", e.Artifact+"@"+e.Digests.SHA256.String()),
		Name: e.Artifact, Version: b.in.Version, FileName: e.Artifact, Digests: e.Digests, Purpose: spdx.Other, Supplier: b.in.supplier(),
	}
	if b.once[p.ID] {
		return p.ID
	}
	linked := b.linked(e)
	if linked == "" {
		p.Comment = "This artifact has no SBOM of its own."
	}
	b.add(p)
	if linked != "" {
		b.relate(p.ID, spdx.CopyOf, linked, "described in "+e.SBOM)
	}
	return p.ID
}

// base adds the image that another one was built on,
// "host/repository:tag@digest".
func base(ref string) spdx.Package {
	name, sum, _ := strings.Cut(clean(ref), "@")
	repository, label := name, ""
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		repository, label = name[:i], name[i+1:]
	}
	p := spdx.Package{ID: elementID("Base", ref), Name: name, Version: sum, Purpose: spdx.Container}
	if d, err := digest.Parse(sum); err == nil && d.Algorithm() == digest.SHA256 {
		p.Digests.SHA256 = d
		p.PURL = fmt.Sprintf("pkg:oci/%s@%s?repository_url=%s",
			url.PathEscape(strings.ToLower(path.Base(repository))), url.QueryEscape(sum), url.QueryEscape(repository))
		if label != "" {
			p.PURL += "&tag=" + url.QueryEscape(label)
		}
	}
	return p
}

// ociURL returns a package URL of type oci, "" for an image without a name. It
// does not say where the image is served.
func ociURL(repository string, sum digest.Digest, platform string) string {
	if repository == "" {
		return ""
	}
	name := url.PathEscape(strings.ToLower(path.Base(repository)))
	purl := fmt.Sprintf("pkg:oci/%s@%s", name, url.QueryEscape(sum.String()))
	goos, arch, found := strings.Cut(platform, "/")
	if !found {
		return purl
	}
	return purl + "?arch=" + url.QueryEscape(arch) + "&os=" + url.QueryEscape(goos)
}
