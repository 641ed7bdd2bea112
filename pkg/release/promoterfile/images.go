package promoterfile

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-release/waybill/pkg/tool/order"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// listedImage is an image, merged from all entries with its name.
type listedImage struct {
	digests map[digest.Digest][]string
	tags    map[string]listedTag
}

// listedTag is the digest of a tag, and the line that names it.
type listedTag struct {
	digest digest.Digest
	line   int
}

// readImages reads a list. One without entries, or without any value, lists no
// image.
func (t *images) readImages(root *yaml.Node) {
	if root.Kind != yaml.SequenceNode && !isNothing(root) {
		t.what.refuse(root.Line, "want a list of images")
	}
	all := map[string]*listedImage{}
	for _, n := range root.Content {
		if name := nameIn(n); name != "" && t.listed[name].line == 0 {
			t.listed[name] = listed{line: n.Line}
		}
		t.readImage(n, all)
	}
	if len(all) > maxImages {
		t.what.add(1, verdict.Refuse(verdict.Limit, "", "the list has more than %d images", maxImages))
	}
	for name, i := range all {
		image := Image{Name: name}
		for d, tags := range i.digests {
			image.Digests = append(image.Digests, Pinned{Digest: d, Tags: slice.Unique(tags)})
		}
		slices.SortFunc(image.Digests, func(a, b Pinned) int { return cmp.Compare(a.Digest.Hex(), b.Digest.Hex()) })
		t.manifest.Images = append(t.manifest.Images, image)
	}
	order.Sort(t.manifest.Images, func(a, b Image) int { return cmp.Compare(a.Name, b.Name) })
}

// isNothing reports whether there is no node, or a key without a value.
func isNothing(n *yaml.Node) bool {
	return n.Kind == 0 || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" && n.Value == ""
}

type imageEntry struct {
	Name    string    `yaml:"name"`
	Digests yaml.Node `yaml:"dmap"`
}

// readImage adds one entry. Several may have the same name, and the same digest. In
// a thin list an image without digests is one that is not promoted yet.
func (t *images) readImage(n *yaml.Node, all map[string]*listedImage) {
	var entry imageEntry
	err := strictyaml.Decode(n, &entry)
	if err == nil {
		err = repository(entry.Name)
	}
	switch {
	case err != nil:
		t.what.add(n.Line, err)
		return
	case isNothing(&entry.Digests) || entry.Digests.Kind == yaml.MappingNode && len(entry.Digests.Content) == 0:
		if t.one {
			t.what.refuse(n.Line, "%s: the image has no digests", entry.Name)
		}
		return
	case entry.Digests.Kind != yaml.MappingNode:
		t.what.refuse(n.Line, "%s: want a dmap of digests and their tags", entry.Name)
		return
	case all[entry.Name] == nil:
		all[entry.Name] = &listedImage{map[digest.Digest][]string{}, map[string]listedTag{}}
	}
	for i := 0; i+1 < len(entry.Digests.Content); i += 2 {
		t.readDigest(entry.Name, entry.Digests.Content[i], entry.Digests.Content[i+1], all[entry.Name])
	}
}

// readDigest adds a digest and its tags, and refuses a tag that names another
// digest already.
func (t *images) readDigest(name string, key, value *yaml.Node, image *listedImage) {
	d, err := digest.Parse(key.Value)
	if err != nil || d.Algorithm() != digest.SHA256 {
		t.what.refuse(key.Line, "%s: %.100q is not a SHA-256 digest", name, key.Value)
		return
	}
	var tags []string
	if err := strictyaml.Decode(value, &tags); err != nil {
		t.what.add(value.Line, err)
		return
	}
	image.digests[d] = append(image.digests[d], tags...)
	for _, tag := range tags {
		other, taken := image.tags[tag]
		switch {
		case len(tag) > 128 || !tagPattern().MatchString(tag):
			t.what.refuse(value.Line, "%s: %.150q is not a tag", name, tag)
		case taken && other.digest != d:
			f := verdict.Find(verdict.ConfigParse, "", "%s:%s: the tag names two digests, the first in line %d", name, tag, other.line)
			t.what.add(value.Line, &verdict.Error{Finding: f.Differ(other.digest.String(), d.String())})
		case !taken:
			image.tags[tag] = listedTag{d, value.Line}
		}
	}
}

// nameIn is the name in an entry of a list, even if the entry is faulty.
func nameIn(n *yaml.Node) string {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "name" {
			return n.Content[i+1].Value
		}
	}
	return ""
}

// refuseForeign refuses the images of lists that are in a place of another
// manifest: only the list of that project may name them.
func refuseForeign(all []reading[Manifest]) {
	owner := map[string]string{}
	for _, t := range all {
		for _, p := range append(t.manifest.Destinations, t.manifest.Source) {
			owner[p.Name] = t.name
		}
	}
	for i := range all {
		t := &all[i]
		own := append(slices.Clone(t.manifest.Destinations), t.manifest.Source)
		for _, image := range slices.Sorted(maps.Keys(t.listed)) {
			if place, name := foreign(own, image, owner); name != "" {
				t.what.refuse(t.listed[image].line, "%s: the image is in %s, which is a place of %s", image, place, name)
			}
		}
	}
}

// foreign is the place of another manifest that an image would be in, and the
// name of the manifest.
func foreign(own []Place, image string, owner map[string]string) (place, name string) {
	for _, p := range own {
		for at := p.Name + "/" + image; len(at) > len(p.Name); at = at[:strings.LastIndexByte(at, '/')] {
			name := owner[at]
			if name == "" {
				continue
			}
			if slices.ContainsFunc(own, func(o Place) bool { return o.Name == at }) {
				break
			}
			return at, name
		}
	}
	return "", ""
}
