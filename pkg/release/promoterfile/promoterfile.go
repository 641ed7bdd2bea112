// Package promoterfile reads the manifests of Kubernetes' promoter: which images
// move from which registry to which, and which files from which bucket.
//
// An image manifest names one source registry, its destinations, and for each
// image the digests and their tags. It is one file or, for easier review, two
// ("thin"): manifests/NAME/promoter-manifest.yaml has the places, and
// images/NAME/images.yaml has the images.
//
//	manifests, bad, err := promoterfile.ReadUsable(os.DirFS("registry.k8s.io"))
//	for _, m := range manifests {
//		for _, image := range m.Images { … }
//	}
//
// A manifest of files is of the same kind: a source, its destinations, and the
// SHA-256 digest of each file. Thin, it is filestores/NAME/filepromoter-manifest.yaml
// and the lists in manifests/NAME; [ReadUsableFiles] reads those.
//
// All published manifests are readable. An image or a file may be listed several
// times; a tag of two digests, a file of two digests, an unknown key or a name
// outside of its place is refused. All faults are reported at once, each with
// its file and line.
//
// Other projects should not import this package: it changes without notice.
package promoterfile

import (
	"cmp"
	"errors"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
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

// where is the part of a manifest with the places. Its nodes are decoded one by
// one, so that every fault is reported, with its line.
type where struct {
	Registries []yaml.Node `yaml:"registries"`
	Policy     yaml.Node   `yaml:"provenance"`
	ImagesPath string      `yaml:"imagesPath"` // deprecated, and ignored
}

type registryEntry struct {
	Name    string `yaml:"name"`
	Account string `yaml:"service-account"`
	Token   string `yaml:"token"` // unused, and ignored
	Source  bool   `yaml:"src"`
}

var (
	tagPattern  = pattern.Lazy(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	partPattern = pattern.Lazy(`^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$`)
	hostPattern = pattern.Lazy(`^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-f:]+\])(?::[0-9]{1,5})?$`)
)

// Parse reads a manifest with places and images in one document.
func Parse(name string, raw []byte) (Manifest, error) {
	t := images{newReading[Manifest](name, name, name), true}
	var w struct {
		where  `yaml:",inline"`
		Images yaml.Node `yaml:"images"`
	}
	if err := read(raw, &w); err != nil {
		t.where.add(0, err)
		return t.result()
	}
	t.readPlaces(w.where)
	t.readImages(&w.Images)
	return t.result()
}

// ParseThin reads a manifest whose images are in a separate file.
func ParseThin(name string, manifest, list []byte) (Manifest, error) {
	t := parseThin(name, manifest, list)
	return t.result()
}

// images is a manifest of images. In one of one file, an image without digests is
// a fault.
type images struct {
	reading[Manifest]
	one bool
}

func parseThin(name string, manifest, list []byte) images {
	t := images{newReading[Manifest](name, manifestFile(name), listFile(name)), false}
	var w where
	if err := read(manifest, &w); err != nil {
		t.where.add(0, err)
	} else {
		t.readPlaces(w)
	}
	var root yaml.Node
	switch err := read(list, &root); {
	case errors.Is(err, io.EOF): // a list of nothing yet, or a comment that says so
	case err != nil:
		t.what.add(0, err)
	default:
		t.readImages(root.Content[0])
	}
	return t
}

func read(raw []byte, v any) error {
	return strictyaml.Unmarshal(raw, v, strictyaml.MaxSize(maxSize), strictyaml.MaxKeys(maxKeys))
}

func (t *images) readPlaces(w where) {
	var all []listedPlace
	for _, n := range w.Registries {
		var r registryEntry
		err := strictyaml.Decode(&n, &r)
		var place Place
		if err == nil {
			place, err = registry(r.Name)
		}
		place.Account = r.Account
		t.where.add(n.Line, err)
		all = append(all, listedPlace{place, r.Source, n.Line})
	}
	m := &t.manifest
	m.Name = t.name
	m.Source, m.Destinations = t.where.places(all)
	t.source = m.Source.Name + "/"
	if w.Policy.IsZero() {
		return
	}
	p := &Policy{}
	if err := strictyaml.Decode(&w.Policy, p); err != nil {
		t.where.add(w.Policy.Line, err)
		return
	}
	p.check(func(about string, err error) { t.where.add(cmp.Or(lineIn(&w.Policy, about), w.Policy.Line), err) })
	m.Policy = p
}

// listedPlace is a place as a manifest lists it; one that could not be read has no
// name.
type listedPlace struct {
	Place
	source bool
	line   int
}

// places requires one source and at least one destination that differs from it.
func (f *faults) places(all []listedPlace) (source Place, destinations []Place) {
	seen := map[string]bool{}
	sources := 0
	for _, p := range all {
		if p.source {
			sources++
		}
		switch {
		case p.Name == "": // reported already
		case p.source && source.Name != "":
			f.refuse(p.line, "there are two sources, %s and %s; want one", source.Name, p.Name)
		case seen[p.Name]:
			f.refuse(p.line, "%s: the place is listed twice", p.Name)
		case p.source:
			source = p.Place
		default:
			destinations = append(destinations, p.Place)
		}
		seen[p.Name] = true
	}
	if sources == 0 {
		f.refuse(1, "no source: one place must have src: true")
	}
	if sources == len(all) {
		f.refuse(1, "no destination: at least one place must be without src")
	}
	return source, destinations
}

// registry reads HOST[:PORT][/PATH] and returns its canonical spelling, so that
// two spellings of one place are equal.
func registry(name string) (Place, error) {
	host, path, below := strings.Cut(strings.TrimRight(name, "/"), "/")
	if !hostPattern().MatchString(host) || !strings.ContainsAny(host, ".:") && host != "localhost" {
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
		if !partPattern().MatchString(part) {
			return verdict.Refuse(verdict.ConfigParse, name, "not a repository name")
		}
	}
	return nil
}
