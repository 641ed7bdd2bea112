// Package promoterfile reads what Kubernetes' promoter is told: which images move
// from which registry to which, and which files from which bucket.
//
// An image manifest names one source registry, its destinations, and for each
// image the digests and their tags. It is one file, or, as people review it,
// two ("thin"): manifests/NAME/promoter-manifest.yaml says where, and
// images/NAME/images.yaml says what.
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
// Everything is read as it is published, and as strictly as it is reviewed: a
// key that nobody knows, a digest listed twice, a tag of two digests or a
// name that leads elsewhere is refused, with its place.
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

// Limits of one file. The largest that is published has 1.5 MB and the images
// of ten years.
const (
	maxSize   = 64 << 20
	maxImages = 100_000
	maxKeys   = 1_000_000
)

// Manifest is one project's: where its images come from, and where they go.
type Manifest struct {
	// Name is that of the file, or of the directory of a thin manifest.
	Name         string
	Source       Place
	Destinations []Place
	// Images are sorted by name, their digests too.
	Images []Image
	// Policy is what the project demands of its images; nil if nothing.
	Policy *Policy
}

// Place is a registry, or what is below a path of it, and the account that
// writes there.
type Place struct {
	Name    string
	Account string
}

// Image is one repository below the source.
type Image struct {
	Name    string
	Digests []Pinned
}

// Pinned is what a digest is called. Without tags it is promoted by its digest.
type Pinned struct {
	Digest digest.Digest
	Tags   []string
}

// where is the part of a manifest that says where.
type where struct {
	Registries []struct {
		Name    string `yaml:"name"`
		Account string `yaml:"service-account"`
		Token   string `yaml:"token"` // nobody writes it, and it is not read
		Source  bool   `yaml:"src"`
	} `yaml:"registries"`
	Policy     *Policy `yaml:"provenance"`
	ImagesPath string  `yaml:"imagesPath"` // deprecated, and says nothing
}

// images is the part that says what.
type images []struct {
	Name    string `yaml:"name"`
	Digests dmap   `yaml:"dmap"`
}

// dmap is read node by node, for it can have many keys.
type dmap []Pinned

// UnmarshalYAML implements [yaml.Unmarshaler].
func (d *dmap) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return verdict.Refuse(verdict.ConfigParse, "dmap", "want digests and their tags")
	}
	*d = make(dmap, 0, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		one, err := digest.Parse(n.Content[i].Value)
		if err != nil || one.Algorithm() != digest.SHA256 {
			return verdict.Refuse(verdict.ConfigParse, "dmap", "line %d: %q is no SHA-256 digest", n.Content[i].Line, n.Content[i].Value)
		}
		var tags []string
		if err := strictyaml.Decode(n.Content[i+1], &tags); err != nil {
			return err
		}
		for _, tag := range tags {
			if !tagPattern.MatchString(tag) {
				return verdict.Refuse(verdict.ConfigParse, "dmap", "line %d: %q is no tag", n.Content[i+1].Line, tag)
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

// Parse reads a manifest that says where and what in one file.
func Parse(name string, raw []byte) (Manifest, error) {
	var w struct {
		where  `yaml:",inline"`
		Images images `yaml:"images"`
	}
	if err := read(raw, &w); err != nil {
		return Manifest{}, at(name, err)
	}
	return assemble(name, w.where, w.Images)
}

// ParseThin reads a manifest whose images are in a file of their own.
func ParseThin(name string, manifest, list []byte) (Manifest, error) {
	var w where
	if err := read(manifest, &w); err != nil {
		return Manifest{}, at("manifests/"+name, err)
	}
	var all images
	if err := read(list, &all); err != nil {
		return Manifest{}, at("images/"+name, err)
	}
	return assemble(name, w, all)
}

func read(raw []byte, v any) error {
	return strictyaml.Unmarshal(raw, v, strictyaml.MaxSize(maxSize), strictyaml.MaxKeys(maxKeys))
}

// at says in which manifest it was.
func at(name string, err error) error {
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
			return Manifest{}, at(name, err)
		}
		place.Account = r.Account
		switch {
		case !r.Source:
			m.Destinations = append(m.Destinations, place)
		case m.Source.Name != "":
			return refuse("two sources, %s and %s", m.Source.Name, place.Name)
		default:
			m.Source = place
		}
	}
	if err := ends(m.Source, m.Destinations); err != nil {
		return Manifest{}, at(name, err)
	}
	if err := m.Policy.check(); err != nil {
		return Manifest{}, at(name, err)
	}
	if len(all) > maxImages {
		return Manifest{}, verdict.Refuse(verdict.Limit, name, "more than %d images", maxImages)
	}
	for _, i := range all {
		image := Image{Name: i.Name, Digests: i.Digests}
		if err := image.check(); err != nil {
			return Manifest{}, at(name, err)
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

// ends demands one source and something to write to, which is another place.
func ends(source Place, destinations []Place) error {
	switch {
	case source.Name == "":
		return verdict.Refuse(verdict.ConfigParse, "source", "none: one place must have src: true")
	case len(destinations) == 0:
		return verdict.Refuse(verdict.ConfigParse, "destinations", "none: at least one place must be without src")
	}
	seen := map[string]bool{source.Name: true}
	for _, d := range destinations {
		if seen[d.Name] {
			return verdict.Refuse(verdict.ConfigParse, d.Name, "it is listed twice")
		}
		seen[d.Name] = true
	}
	return nil
}

// registry reads HOST[:PORT][/PATH] in whatever spelling, and keeps the one that
// is canonical: two spellings of one place are one.
func registry(name string) (Place, error) {
	host, path, below := strings.Cut(strings.TrimRight(name, "/"), "/")
	if !hostPattern.MatchString(host) || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return Place{}, verdict.Refuse(verdict.ConfigParse, name, "it names no registry; want HOST or HOST/PATH")
	}
	if below {
		if err := repository(path); err != nil {
			return Place{}, verdict.Refuse(verdict.ConfigParse, name, "its path is none of a registry")
		}
		path = "/" + path
	}
	canonical, err := address.Canonical(host + path)
	if err != nil {
		return Place{}, verdict.Refuse(verdict.ConfigParse, name, "it names no registry: %v", err)
	}
	return Place{Name: canonical}, nil
}

func repository(name string) error {
	for part := range strings.SplitSeq(name, "/") {
		if !partPattern.MatchString(part) {
			return verdict.Refuse(verdict.ConfigParse, name, "it is no name of a repository")
		}
	}
	return nil
}

// check refuses an image of nothing, and one of whose tags means two things.
func (i Image) check() error {
	if err := repository(i.Name); err != nil {
		return err
	}
	if len(i.Digests) == 0 {
		return verdict.Refuse(verdict.ConfigParse, i.Name, "it has no digests")
	}
	of := map[string]digest.Digest{}
	for _, p := range i.Digests {
		for _, tag := range p.Tags {
			if other, taken := of[tag]; taken {
				return &verdict.Error{Finding: verdict.Find(verdict.ConfigParse, i.Name+":"+tag, "the tag is of two digests").
					Differ(other.String(), p.Digest.String())}
			}
			of[tag] = p.Digest
		}
	}
	return nil
}
