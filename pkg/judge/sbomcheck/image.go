package sbomcheck

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Layers demands that a document lists the platforms that the registry serves,
// and of each exactly its layers. Of an image that was saved to a file the
// configuration is compared, which names the same layers.
func Layers(a Artifact, image Image) (all []verdict.Finding) {
	got := platforms(a.Document)
	if alone, unnamed := image[""]; unnamed && len(image) == 1 && len(got) == 1 {
		for name := range got { // an image that stands alone does not say its platform
			image = Image{name: alone}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(image)) {
		p, there := got[name]
		delete(got, name)
		want := image[name]
		switch {
		case !there:
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "the registry serves %s, and the SBOM does not list it", name))
		case (p.Manifest.IsZero() || want.Manifest.IsZero()) && !p.Config.Equal(want.Config):
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "file and registry have other images for %s", name).
				Differ(want.Config.String(), orNone(p.Config)))
		case p.Manifest.IsZero(), want.Manifest.IsZero():
		case !p.Manifest.Equal(want.Manifest):
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "SBOM and registry have other images for %s", name).
				Differ(want.Manifest.String(), p.Manifest.String()))
		case !slices.Equal(sorted(p.Layers), sorted(want.Layers)):
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "SBOM and registry have other layers for %s", name).
				Differ(strings.Join(sorted(want.Layers), " "), strings.Join(sorted(p.Layers), " ")))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		all = append(all, verdict.Find(verdict.Conflict, a.Name, "its SBOM lists %.200q, which the registry does not serve", name))
	}
	return all
}

func sorted(list []digest.Digest) (out []string) {
	for _, d := range list {
		out = append(out, d.String())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// platforms are the images that a document lists, by platform.
func platforms(doc spdx.Document) Image {
	byID, images := map[string]spdx.Package{}, map[string]string{}
	name, _ := doc.Describes()
	for _, p := range doc.Packages() {
		byID[p.ID] = p
		if rest, found := strings.CutPrefix(p.Name, name+"/"); found && p.Purpose == spdx.Container {
			images[p.ID] = rest
		}
	}
	out := Image{}
	for id, platform := range images {
		p := Platform{Manifest: byID[id].Digests.SHA256}
		if rest, found := strings.CutPrefix(byID[id].Comment, Configuration); found {
			p.Config, _ = digest.Parse(strings.TrimSuffix(rest, ".")) // what is none equals nothing
		}
		out[platform] = p
	}
	for _, r := range doc.Relationships() {
		layer := byID[r.To]
		if platform, own := images[r.From]; own && r.Type == spdx.Contains && layer.Purpose == spdx.Archive {
			p := out[platform]
			p.Layers = append(p.Layers, layer.Digests.SHA256)
			out[platform] = p
		}
	}
	return out
}

// Saved demands that a file that holds an image, as Docker saves it, holds one
// that the release serves under that name: kube-proxy.tar goes with the images
// kube-proxy and kube-proxy-amd64. The configuration is compared, which names
// the same layers. compared is false where the file holds no image, or the
// release serves none of its name.
func Saved(a Artifact, served map[string]Image) (all []verdict.Finding, compared bool) {
	name, _, _ := strings.Cut(path.Base(a.Name), ".tar")
	known := map[digest.Digest]bool{}
	for other, image := range served {
		if base := path.Base(other); base != name && !strings.HasPrefix(base, name+"-") {
			continue
		}
		for _, p := range image {
			known[p.Config] = true
		}
	}
	held := platforms(a.Document)
	if len(known) == 0 || len(held) == 0 {
		return nil, false
	}
	for _, platform := range slices.Sorted(maps.Keys(held)) {
		if p := held[platform]; !known[p.Config] {
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "the image for %s in it is none that the registry serves as %q", platform, name).
				Differ("one of "+strings.Join(sorted(slices.Collect(maps.Keys(known))), " "), orNone(p.Config)))
		}
	}
	return all, true
}

// Platforms are the images that a document of ours lists, by platform.
func Platforms(doc spdx.Document) Image { return platforms(doc) }

// HoldsImage reports whether a document is about a file that holds an image.
func HoldsImage(doc spdx.Document) bool { return len(platforms(doc)) > 0 }

// Placed is an artifact of the release that the document of an image says was
// put at a place of the image of a platform.
type Placed struct {
	Platform, Path string
	Name           string
	// Said is what the document says of its bytes.
	Said spdx.File
}

// Put are the artifacts that a document of ours says were put into an image. One
// of which it does not say where it is has neither platform nor path.
func Put(doc spdx.Document) (all []Placed) {
	own, weak := subjectOf(doc.Relationships()), map[string]string{}
	for _, c := range doc.Checksums() {
		if c.Algorithm == "SHA1" {
			weak[c.ID] = c.Value
		}
	}
	put, images := map[string]Placed{}, map[string]string{}
	name, _ := doc.Describes()
	for _, p := range doc.Packages() {
		if rest, found := strings.CutPrefix(p.Name, name+"/"); found && p.Purpose == spdx.Container {
			images[p.ID] = rest
		} else if p.ID != own && putIn(doc, p) && p.Purpose != spdx.Application {
			put[p.ID] = Placed{Name: p.Name, Said: spdx.File{Name: p.Name, Digests: p.Digests, SHA1: weak[p.ID]}}
		}
	}
	if len(images) == 0 {
		return nil
	}
	said := map[string]bool{}
	for _, r := range doc.Relationships() {
		one, entry := put[r.To]
		platform, own := images[r.From]
		if at, found := strings.CutPrefix(r.Comment, "at "); entry && own && found && r.Type == spdx.Contains {
			one.Platform, one.Path = platform, at
			all, said[r.To] = append(all, one), true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(put)) {
		if !said[id] {
			all = append(all, put[id])
		}
	}
	return all
}

// Bears demands that the file at the place is, by every checksum that the
// document gives of it, the artifact. There is none if it is the zero value.
func (p Placed) Bears(a Artifact, file spdx.File) []verdict.Finding {
	switch {
	case p.Path == "":
		return []verdict.Finding{verdict.Find(verdict.Conflict, a.Name, "its SBOM says that %.200q was put in, and not where", p.Name)}
	case file.Name == "":
		return []verdict.Finding{verdict.Find(verdict.Conflict, a.Name, "its SBOM says that %.200q was put at %.200q for %s, where there is no file", p.Name, p.Path, p.Platform)}
	case !Same(p.Said, file):
		return []verdict.Finding{verdict.Find(verdict.Conflict, a.Name, "its SBOM says that %.200q was put at %.200q for %s, where there are other bytes", p.Name, p.Path, p.Platform).
			Differ(sumsOf(file), sumsOf(p.Said))}
	}
	return nil
}
