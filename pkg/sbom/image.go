package sbom

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/spdx"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// ImagePlatform is the image of one platform.
type ImagePlatform struct {
	Platform string // "linux/amd64"
	Digest   digest.Digest
	Layers   []digest.Digest
	// Base is the image it was built on, "host/repository@sha256:…"; "" if it
	// was built on nothing.
	Base string
	// Files maps paths in the image to the artifacts that were put there.
	Files map[string]Entry
}

// Image describes a multi-platform image: the image of each platform, its
// layers, its base, and the artifacts that were added.
func Image(in Input, artifact string, index digest.Set, platforms []ImagePlatform) ([]byte, error) {
	if err := in.check(artifact, index); err != nil {
		return nil, err
	}
	if len(platforms) == 0 {
		return nil, verdict.Refuse(verdict.Platform, artifact, "an image without platforms")
	}
	b := in.draft(artifact, index)
	b.subject().Purpose = spdx.Container
	b.subject().PURL = ociURL(artifact, index.SHA256, "")
	b.subject().Comment = "The checksum is that of the image index, as the registry serves it."
	once := map[string]bool{}
	sorted := slices.SortedFunc(slices.Values(platforms), func(x, y ImagePlatform) int {
		return strings.Compare(x.Platform, y.Platform)
	})
	for i, p := range sorted {
		if p.Platform == "" || p.Digest.Algorithm() != digest.SHA256 || (i > 0 && p.Platform == sorted[i-1].Platform) {
			return nil, verdict.Refuse(verdict.Platform, artifact, "platform %q: no name, no digest, or there twice", p.Platform)
		}
		if err := b.platform(artifact, p, once); err != nil {
			return nil, err
		}
	}
	return spdx.Encode(b.draft)
}

// platform adds the image of one platform. once holds the elements that
// platforms share and that are there already.
func (b *builder) platform(artifact string, p ImagePlatform, once map[string]bool) error {
	id := b.add(spdx.Package{
		ID: elementID("Image", p.Platform), Name: artifact + "/" + p.Platform, Version: b.in.Version,
		Purpose: spdx.Container, Digests: digest.Set{SHA256: p.Digest}, PURL: ociURL(artifact, p.Digest, p.Platform),
	})
	b.relate(artifactID, spdx.Contains, id, p.Platform)
	for i, layer := range p.Layers {
		if layer.Algorithm() != digest.SHA256 {
			return verdict.Refuse(verdict.SBOMSubject, artifact, "layer %d of %s has no SHA-256", i, p.Platform)
		}
		element := spdx.Package{
			ID: elementID("Layer", layer.String()), Name: layer.String(),
			Purpose: spdx.Archive, Digests: digest.Set{SHA256: layer},
		}
		b.relate(id, spdx.Contains, b.addOnce(element, once), fmt.Sprintf("layer %d", i))
	}
	if p.Base != "" {
		b.relate(id, spdx.DescendantOf, b.addOnce(base(p.Base), once), "base image")
		b.relate(id, spdx.Contains, spdx.NoAssertion, "the contents of the base image are not described here")
	}
	for _, at := range slices.Sorted(maps.Keys(p.Files)) {
		e := p.Files[at]
		if e.Artifact == "" || e.Digests.SHA256.IsZero() {
			return verdict.Refuse(verdict.SBOMSubject, artifact, "file %q of %s comes from no known artifact", at, p.Platform)
		}
		b.relate(id, spdx.Contains, b.entry(e, once), "at "+at)
	}
	return nil
}

// entry adds another artifact of the release, linked to its own document.
func (b *builder) entry(e Entry, once map[string]bool) string {
	p := spdx.Package{
		ID:   elementID("Entry", e.Artifact+"@"+e.Digests.SHA256.String()),
		Name: e.Artifact, Version: b.in.Version, FileName: e.Artifact, Digests: e.Digests,
	}
	if once[p.ID] {
		return p.ID
	}
	linked := b.linked(e)
	if linked == "" {
		p.Comment = "This artifact has no SBOM of its own."
	}
	b.addOnce(p, once)
	if linked != "" {
		b.relate(p.ID, spdx.CopyOf, linked, "described in "+e.SBOM)
	}
	return p.ID
}

func (b *builder) addOnce(p spdx.Package, once map[string]bool) string {
	if once[p.ID] {
		return p.ID
	}
	once[p.ID] = true
	return b.add(p)
}

func base(ref string) spdx.Package {
	name, sum, _ := strings.Cut(ref, "@")
	p := spdx.Package{ID: elementID("Base", ref), Name: name, Version: sum, Purpose: spdx.Container}
	if d, err := digest.Parse(sum); err == nil && d.Algorithm() == digest.SHA256 {
		p.Digests.SHA256 = d
		repository := url.QueryEscape(name)
		p.PURL = fmt.Sprintf("pkg:oci/%s@%s?repository_url=%s", path.Base(name), url.QueryEscape(sum), repository)
	}
	return p
}

// ociURL is a package URL of type oci. Where the image is served is not part
// of what it is.
func ociURL(artifact string, sum digest.Digest, platform string) string {
	name := url.PathEscape(strings.ToLower(path.Base(artifact)))
	purl := fmt.Sprintf("pkg:oci/%s@%s", name, url.QueryEscape(sum.String()))
	goos, arch, found := strings.Cut(platform, "/")
	if !found {
		return purl
	}
	return purl + "?arch=" + url.QueryEscape(arch) + "&os=" + url.QueryEscape(goos)
}
