package k8slayout

import (
	"regexp"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

const (
	// namespaces is how the SBOMs of Kubernetes begin the address that they give
	// themselves: the version follows, and then "/release" or "/source".
	namespaces = "https://sbom.k8s.io/"
	// imagesAt is how an image reference of the release begins.
	imagesAt = "registry.k8s.io/"
	// imageID is how the identifier of an image's package begins: bom makes it
	// of the reference, with "-" for "/" and ":".
	imageID = "SPDXRef-Package-registry.k8s.io-"
	// layerName is how the name of a layer's package begins.
	layerName = "sha256:"
)

// Built is what a document says of the image that was built.
type Built struct {
	// Archive is the archive that the image was loaded from.
	Archive digest.Set
	// Layers are its layers as they lie in the archive, sorted, each once.
	Layers []digest.Digest
}

// ReadSBOM reads what the SBOM of the release describes: the files with their
// bytes, the images by their references, and of each image the archive and the
// layers. The document must say that it is of the version, by the address that
// it gives itself or by the reference of an image.
func ReadSBOM(name string, doc spdx.Document, v version.Version) (Witness, error) {
	w := Witness{name: name, covers: inSBOM, images: map[Image]Built{}, source: source(doc, v)}
	other := func(got string) error {
		return &verdict.Error{Finding: verdict.Find(verdict.Version, name, "it describes another version, %.200q", got).Differ(v.String(), got)}
	}
	of, itself := strings.CutPrefix(doc.Namespace(), namespaces)
	if itself && of != v.String()+"/release" {
		return Witness{}, other(doc.Namespace())
	}
	for _, f := range doc.Files() {
		if err := w.claim(strings.TrimPrefix(f.Name, "./"), f.Digests); err != nil {
			return Witness{}, err
		}
	}
	layers := layersOf(doc)
	for p := range doc.EachPackage() {
		alone, tag, is := referenceOf(p)
		i, one := parseImage(alone)
		switch {
		case !is:
		case tag != v.String():
			return Witness{}, other(tag)
		case one:
			if _, twice := w.images[i]; twice {
				return Witness{}, verdict.Refuse(verdict.Conflict, name, "it describes the image %s twice", alone)
			}
			w.images[i], itself = Built{Archive: p.Digests, Layers: layers[p.ID]}, true
		}
	}
	if !itself {
		return Witness{}, verdict.Refuse(verdict.Version, name, "it says nowhere which version it describes")
	}
	return w, nil
}

// source is the SBOM of the source as the one of the release refers to it.
func source(doc spdx.Document, v version.Version) digest.Set {
	for _, e := range doc.ExternalRefs() {
		if e.Namespace == SourceNamespace(v) {
			return digest.Set{SHA256: e.SHA256}
		}
	}
	return digest.Set{}
}

// SourceNamespace is the address that the SBOM of a version's source gives
// itself.
func SourceNamespace(v version.Version) string { return namespaces + v.String() + "/source" }

// referenced finds name and tag in the identifier of an image's package. Those
// of its layers have a digest at their end.
var referenced = regexp.MustCompile(`\A(.+?)-(v[0-9]+\.[0-9]+\.[0-9]+(?:-(?:alpha|beta|rc)\.[0-9]+)?)\z`)

// referenceOf reads which image of the release a package is, and its tag. Up to
// v1.25 the reference is the name of the package; since then the name is that of
// the archive, and the reference is in the identifier alone.
func referenceOf(p spdx.Package) (image, tag string, is bool) {
	if image, tag, is = strings.Cut(p.Name, ":"); is && strings.HasPrefix(image, imagesAt) {
		return image[strings.LastIndexByte(image, '/')+1:], tag, true
	}
	rest, is := strings.CutPrefix(p.ID, imageID)
	m := referenced.FindStringSubmatch(rest)
	if !is || m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

// layersOf are the layers that each package contains, by its identifier.
func layersOf(doc spdx.Document) map[string][]digest.Digest {
	sums := map[string]digest.Digest{}
	for p := range doc.EachPackage() {
		if strings.HasPrefix(p.Name, layerName) && !p.Digests.SHA256.IsZero() {
			sums[p.ID] = p.Digests.SHA256
		}
	}
	layers := map[string][]digest.Digest{}
	for _, r := range doc.Relationships() {
		if sum, is := sums[r.To]; is && r.Type == spdx.Contains {
			layers[r.From] = append(layers[r.From], sum)
		}
	}
	for id := range layers {
		layers[id] = Distinct(layers[id])
	}
	return layers
}

// Distinct sorts digests and leaves each once.
func Distinct(all []digest.Digest) []digest.Digest {
	slices.SortFunc(all, func(a, b digest.Digest) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all)
}

// Images is how many images the witness names.
func (w Witness) Images() int { return len(w.images) }

// Built is what the witness says of one image; the zero Built where it says
// nothing.
func (w Witness) Built(i Image) Built { return w.images[i] }

// Tagged reports whether the witness names the image whose tag a file says.
func (w Witness) Tagged(file string) bool {
	of, is := strings.CutSuffix(file, TagSuffix)
	_, named := w.images[imageIn(of+".tar")]
	return is && named
}

// Bytes are those that the witness gives for a file: by its name, as the archive
// of an image, or as the document that it refers to. The zero Set gives none.
func (w Witness) Bytes(name string) digest.Set {
	set := w.claims[name]
	if set.IsZero() {
		set = w.images[imageIn(name)].Archive
	}
	if set.IsZero() && name == SourceSBOM {
		set = w.source
	}
	return set
}

// Gives reports whether the witness gives a file digests of which at least one
// was computed, and whether each of those is that of the bytes.
func (w Witness) Gives(name string, bytes digest.Set) (gives, same bool) {
	claim := w.Bytes(name)
	return compared(claim, bytes), fits(claim.SHA256, bytes.SHA256) && fits(claim.SHA512, bytes.SHA512)
}
