package sbomcheck

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Layers requires that a document lists the platforms that the registry serves,
// and exactly the layers of each. For an image that was saved to a file it
// compares the configuration, which names the same layers.
func Layers(a Artifact, image Image) (all []verdict.Finding) {
	got := Platforms(a.Document)
	if alone, unnamed := image[""]; unnamed && len(image) == 1 && len(got) == 1 {
		for name := range got { // a single image does not name its platform
			image = Image{name: alone}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(image)) {
		p, there := got[name]
		delete(got, name)
		want := image[name]
		switch {
		case !there:
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "the registry serves %s, but the SBOM does not list it", name))
		case (p.Manifest.IsZero() || want.Manifest.IsZero()) && !p.Config.Equal(want.Config):
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "file and registry have different images for %s", name).
				Differ(want.Config.String(), orNone(p.Config)))
		case p.Manifest.IsZero(), want.Manifest.IsZero():
		case !p.Manifest.Equal(want.Manifest):
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "SBOM and registry have different images for %s", name).
				Differ(want.Manifest.String(), p.Manifest.String()))
		case !slices.Equal(sorted(p.Layers), sorted(want.Layers)):
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "SBOM and registry have different layers for %s", name).
				Differ(strings.Join(sorted(want.Layers), " "), strings.Join(sorted(p.Layers), " ")))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		all = append(all, verdict.Find(verdict.Conflict, a.Name, "its SBOM lists %.200q, which the registry does not serve", name))
	}
	return all
}

func sorted(list []digest.Digest) []string {
	return slice.Unique(slice.Map(list, digest.Digest.String))
}

// Platforms returns the images that a document of ours lists, by platform.
func Platforms(doc spdx.Document) Image {
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
			rest, _, _ = strings.Cut(rest, "\n")
			p.Config, _ = digest.Parse(strings.TrimSuffix(rest, ".")) // an invalid digest is zero and equals none
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

// Saved requires that an image in a file, in the format of docker save, is one
// that the release serves under that name: kube-proxy.tar belongs to the images
// kube-proxy and kube-proxy-amd64. It compares the configuration, which names
// the same layers. compared is false if the file contains no image, or the
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
	held := Platforms(a.Document)
	if len(known) == 0 || len(held) == 0 {
		return nil, false
	}
	for _, platform := range slices.Sorted(maps.Keys(held)) {
		if p := held[platform]; !known[p.Config] {
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "the file contains an image for %s that the registry does not serve as %q", platform, name).
				Differ("one of "+strings.Join(sorted(slices.Collect(maps.Keys(known))), " "), orNone(p.Config)))
		}
	}
	return all, true
}

// HoldsImage reports whether a document describes a file that contains an
// image.
func HoldsImage(doc spdx.Document) bool { return len(Platforms(doc)) > 0 }

// Placed is an artifact of the release that, by the document of an image, was
// put at a path in the image of a platform.
type Placed struct {
	Platform, Path string
	Name           string
	// Said contains the digests in the document.
	Said spdx.File
}

// Put lists the artifacts that, by a document of ours, were put into an image.
// Platform and path are empty if the document does not give them.
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

// CheckFile requires that the file at the path is the artifact, by every
// checksum in the document. The zero file means that there is none.
func (p Placed) CheckFile(a Artifact, file spdx.File) []verdict.Finding {
	switch {
	case p.Path == "":
		return []verdict.Finding{verdict.Find(verdict.Conflict, a.Name, "its SBOM says that %.200q was copied into the image, but gives no path", p.Name)}
	case file.Name == "":
		return []verdict.Finding{verdict.Find(verdict.Conflict, a.Name, "its SBOM says that %.200q was copied to %.200q for %s, but no such file exists", p.Name, p.Path, p.Platform)}
	case !Same(p.Said, file):
		return []verdict.Finding{verdict.Find(verdict.Conflict, a.Name, "its SBOM says that %.200q was copied to %.200q for %s, but that file has other bytes", p.Name, p.Path, p.Platform).
			Differ(sumsOf(file), sumsOf(p.Said))}
	}
	return nil
}
