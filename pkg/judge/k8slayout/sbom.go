package k8slayout

import (
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

const (
	// namespaces is the prefix of the document namespace of Kubernetes SBOMs;
	// the version follows, then "/release" or "/source".
	namespaces = "https://sbom.k8s.io/"
	// imagesAt is the prefix of image references of the release.
	imagesAt = "registry.k8s.io/"
	// imageID is the prefix of the SPDX identifier of an image package. The
	// tool bom makes the identifier from the reference, with "-" for "/" and
	// ":".
	imageID = "SPDXRef-Package-registry.k8s.io-"
	// layerName is the prefix of the name of a layer package.
	layerName = "sha256:"
)

// Built is what a document says about an image that was built.
type Built struct {
	// Archive is the archive that the image was loaded from.
	Archive digest.Set
	// Layers are its layers as they are in the archive, sorted, without
	// duplicates.
	Layers []digest.Digest
}

// ReadSBOM reads what the SBOM of the release describes: the files with their
// digests, the images by reference, and the archive and layers of each image.
// The document must name the version, either in its namespace or in the
// reference of an image.
func ReadSBOM(name string, doc spdx.Document, v version.Version) (Witness, error) {
	w := Witness{name: name, covers: inSBOM, images: map[Image]Built{}, source: source(doc, v)}
	other := func(got string) error {
		return &verdict.Error{Finding: verdict.Find(verdict.Version, name, "the SBOM describes another version, %.200q", got).Differ(v.String(), got)}
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
				return Witness{}, verdict.Refuse(verdict.Conflict, name, "the SBOM describes the image %s twice", alone)
			}
			w.images[i], itself = Built{Archive: p.Digests, Layers: layers[p.ID]}, true
		}
	}
	if !itself {
		return Witness{}, verdict.Refuse(verdict.Version, name, "the SBOM does not say which version it describes")
	}
	return w, nil
}

// source returns the digest of the source SBOM that the release SBOM
// references.
func source(doc spdx.Document, v version.Version) digest.Set {
	for _, e := range doc.ExternalRefs() {
		if e.Namespace == SourceNamespace(v) {
			return digest.Set{SHA256: e.SHA256}
		}
	}
	return digest.Set{}
}

// SourceNamespace is the document namespace of the source SBOM of a version.
func SourceNamespace(v version.Version) string { return namespaces + v.String() + "/source" }

// referenced finds name and tag in the identifier of an image package. The
// identifiers of layers end with a digest instead.
var referenced = pattern.Lazy(`\A(.+?)-(v[0-9]+\.[0-9]+\.[0-9]+(?:-(?:alpha|beta|rc)\.[0-9]+)?)\z`)

// referenceOf returns the image of the release that a package describes, and
// its tag. Up to v1.25 the package is named by the reference; since then it is
// named by the archive, and only the identifier contains the reference.
func referenceOf(p spdx.Package) (image, tag string, is bool) {
	if image, tag, is = strings.Cut(p.Name, ":"); is && strings.HasPrefix(image, imagesAt) {
		return image[strings.LastIndexByte(image, '/')+1:], tag, true
	}
	rest, is := strings.CutPrefix(p.ID, imageID)
	m := referenced().FindStringSubmatch(rest)
	if !is || m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

// layersOf maps the identifier of each package to the layers that it contains.
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

// Distinct sorts digests and removes duplicates.
func Distinct(all []digest.Digest) []digest.Digest {
	slices.SortFunc(all, func(a, b digest.Digest) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all)
}

// Images is the number of images that the witness names.
func (w Witness) Images() int { return len(w.images) }

// Built is what the witness says about an image; zero if it does not name the
// image.
func (w Witness) Built(i Image) Built { return w.images[i] }

// Tagged reports whether the witness names the image that a tag file belongs
// to.
func (w Witness) Tagged(file string) bool {
	of, is := strings.CutSuffix(file, TagSuffix)
	_, named := w.images[imageIn(of+".tar")]
	return is && named
}

// Bytes are the digests that the witness gives for a file: by name, as the
// archive of an image, or as the source SBOM that it references. Zero if it
// gives none.
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

// Gives reports whether the witness gives a digest that can be compared with
// bytes, and whether all such digests are equal.
func (w Witness) Gives(name string, bytes digest.Set) (gives, same bool) {
	claim := w.Bytes(name)
	return compared(claim, bytes), fits(claim.SHA256, bytes.SHA256) && fits(claim.SHA512, bytes.SHA512)
}
