// Package promoterfile reads the manifests of Kubernetes' promoter: which images
// move from which registry to which, and which files from which bucket.
//
// An image manifest names one source registry, its destinations, and for each
// image the digests and their tags. It is one file or, for easier review, two
// ("thin"): manifests/NAME/promoter-manifest.yaml has the places, and
// images/NAME/images.yaml has the images.
//
//	manifests, err := promoterfile.ReadDir(os.DirFS("registry.k8s.io"))
//	for _, m := range manifests {
//		for _, image := range m.Images { … }
//	}
//
// A manifest of files is of the same kind: a source, its destinations, and the
// SHA-256 digest of each file. Thin, it is filestores/NAME/filepromoter-manifest.yaml
// and the lists in manifests/NAME; [ReadFilesDir] reads those.
//
// All published manifests are readable. An unknown key, a digest listed twice, a
// tag of two digests or a name outside of its place is refused, with its
// position.
//
// Other projects should not import this package: it changes without notice.
package promoterfile

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-release/waybill/pkg/tool/order"
	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/address"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Limits of one file. The largest published one has 1.5 MB and the images of
// ten years.
const (
	maxSize   = 64 << 20
	maxImages = 100_000
	maxKeys   = 1_000_000
)

// Manifest is the source of one project's images, and their destinations.
type Manifest struct {
	// Name is the name of the file, or of the directory of a thin manifest.
	Name         string
	Source       Place
	Destinations []Place
	// Images are sorted by name, their digests too.
	Images []Image
	// Policy is the project's policy for its images; nil if it has none.
	Policy *Policy
}

// Place is a registry or a path in one, and the account that writes there.
type Place struct {
	Name    string
	Account string
}

// Image is one repository below the source.
type Image struct {
	Name    string
	Digests []Pinned
}

// Pinned is a digest and its tags. Without tags it is promoted by digest.
type Pinned struct {
	Digest digest.Digest
	Tags   []string
}

// where is the part of a manifest with the places.
type where struct {
	Registries []struct {
		Name    string `yaml:"name"`
		Account string `yaml:"service-account"`
		Token   string `yaml:"token"` // unused, and ignored
		Source  bool   `yaml:"src"`
	} `yaml:"registries"`
	Policy     *Policy `yaml:"provenance"`
	ImagesPath string  `yaml:"imagesPath"` // deprecated, and ignored
}

// images is the part with the images.
type images []struct {
	Name    string     `yaml:"name"`
	Digests digestTags `yaml:"dmap"`
}

// digestTags is the dmap of an image, decoded node by node, because it can have many keys.
type digestTags []Pinned

// UnmarshalYAML implements [yaml.Unmarshaler].
func (d *digestTags) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return verdict.Refuse(verdict.ConfigParse, "dmap", "want digests and their tags")
	}
	*d = make(digestTags, 0, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		one, err := digest.Parse(n.Content[i].Value)
		if err != nil || one.Algorithm() != digest.SHA256 {
			return verdict.Refuse(verdict.ConfigParse, "dmap", "line %d: %q is not a SHA-256 digest", n.Content[i].Line, n.Content[i].Value)
		}
		var tags []string
		if err := strictyaml.Decode(n.Content[i+1], &tags); err != nil {
			return err
		}
		for _, tag := range tags {
			if !tagPattern.MatchString(tag) {
				return verdict.Refuse(verdict.ConfigParse, "dmap", "line %d: %q is not a tag", n.Content[i+1].Line, tag)
			}
		}
		slices.Sort(tags)
		*d = append(*d, Pinned{Digest: one, Tags: slices.Compact(tags)})
	}
	slices.SortFunc(*d, func(a, b Pinned) int { return cmp.Compare(a.Digest.Hex(), b.Digest.Hex()) })
	return nil
}

var (
	tagPattern  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	partPattern = regexp.MustCompile(`^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$`)
	hostPattern = regexp.MustCompile(`^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-f:]+\])(?::[0-9]{1,5})?$`)
)

// Parse reads a manifest with places and images in one document.
func Parse(name string, raw []byte) (Manifest, error) {
	var w struct {
		where  `yaml:",inline"`
		Images images `yaml:"images"`
	}
	if err := read(raw, &w); err != nil {
		return Manifest{}, inManifest(name, err)
	}
	return assemble(name, w.where, w.Images)
}

// ParseThin reads a manifest whose images are in a separate file.
func ParseThin(name string, manifest, list []byte) (Manifest, error) {
	var w where
	if err := read(manifest, &w); err != nil {
		return Manifest{}, inManifest("manifests/"+name, err)
	}
	var all images
	if err := read(list, &all); err != nil {
		return Manifest{}, inManifest("images/"+name, err)
	}
	return assemble(name, w, all)
}

func read(raw []byte, v any) error {
	return strictyaml.Unmarshal(raw, v, strictyaml.MaxSize(maxSize), strictyaml.MaxKeys(maxKeys))
}

// inManifest adds the name of the manifest to an error.
func inManifest(name string, err error) error {
	var coded *verdict.Error
	if !errors.As(err, &coded) {
		return verdict.Wrap(verdict.ConfigParse, name, err)
	}
	f := coded.Finding
	f.Subject = name + ": " + f.Subject
	return &verdict.Error{Finding: f, Cause: coded.Cause}
}

func assemble(name string, w where, all images) (Manifest, error) {
	m := Manifest{Name: name, Policy: w.Policy}
	refuse := func(format string, args ...any) (Manifest, error) {
		return Manifest{}, verdict.Refuse(verdict.ConfigParse, name, format, args...)
	}
	for _, r := range w.Registries {
		place, err := registry(r.Name)
		if err != nil {
			return Manifest{}, inManifest(name, err)
		}
		place.Account = r.Account
		switch {
		case !r.Source:
			m.Destinations = append(m.Destinations, place)
		case m.Source.Name != "":
			return refuse("there are two sources, %s and %s; want one", m.Source.Name, place.Name)
		default:
			m.Source = place
		}
	}
	if err := checkPlaces(m.Source, m.Destinations); err != nil {
		return Manifest{}, inManifest(name, err)
	}
	if err := m.Policy.check(); err != nil {
		return Manifest{}, inManifest(name, err)
	}
	if len(all) > maxImages {
		return Manifest{}, verdict.Refuse(verdict.Limit, name, "the list has more than %d images", maxImages)
	}
	for _, i := range all {
		image := Image{Name: i.Name, Digests: i.Digests}
		if err := image.check(); err != nil {
			return Manifest{}, inManifest(name, err)
		}
		m.Images = append(m.Images, image)
	}
	order.Sort(m.Images, func(a, b Image) int { return cmp.Compare(a.Name, b.Name) })
	for i := range m.Images[:max(0, len(m.Images)-1)] {
		if m.Images[i].Name == m.Images[i+1].Name {
			return refuse("image %s is listed twice", m.Images[i].Name)
		}
	}
	return m, nil
}

// checkPlaces requires one source and at least one destination that differs from it.
func checkPlaces(source Place, destinations []Place) error {
	switch {
	case source.Name == "":
		return verdict.Refuse(verdict.ConfigParse, "source", "no source: one place must have src: true")
	case len(destinations) == 0:
		return verdict.Refuse(verdict.ConfigParse, "destinations", "no destination: at least one place must be without src")
	}
	seen := map[string]bool{source.Name: true}
	for _, d := range destinations {
		if seen[d.Name] {
			return verdict.Refuse(verdict.ConfigParse, d.Name, "the place is listed twice")
		}
		seen[d.Name] = true
	}
	return nil
}

// registry reads HOST[:PORT][/PATH] and returns its canonical spelling, so that
// two spellings of one place are equal.
func registry(name string) (Place, error) {
	host, path, below := strings.Cut(strings.TrimRight(name, "/"), "/")
	if !hostPattern.MatchString(host) || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return Place{}, verdict.Refuse(verdict.ConfigParse, name, "not a registry: want HOST or HOST/PATH")
	}
	if below {
		if err := repository(path); err != nil {
			return Place{}, verdict.Refuse(verdict.ConfigParse, name, "not a valid path in a registry")
		}
		path = "/" + path
	}
	canonical, err := address.Canonical(host + path)
	if err != nil {
		return Place{}, verdict.Refuse(verdict.ConfigParse, name, "not a registry: %v", err)
	}
	return Place{Name: canonical}, nil
}

func repository(name string) error {
	for part := range strings.SplitSeq(name, "/") {
		if !partPattern.MatchString(part) {
			return verdict.Refuse(verdict.ConfigParse, name, "not a repository name")
		}
	}
	return nil
}

// check refuses an image without digests, and a tag that names two digests.
func (i Image) check() error {
	if err := repository(i.Name); err != nil {
		return err
	}
	if len(i.Digests) == 0 {
		return verdict.Refuse(verdict.ConfigParse, i.Name, "the image has no digests")
	}
	of := map[string]digest.Digest{}
	for _, p := range i.Digests {
		for _, tag := range p.Tags {
			if other, taken := of[tag]; taken {
				return &verdict.Error{Finding: verdict.Find(verdict.ConfigParse, i.Name+":"+tag, "the tag names two digests").
					Differ(other.String(), p.Digest.String())}
			}
			of[tag] = p.Digest
		}
	}
	return nil
}
