package plan

import (
	"path"
	"slices"
	"strings"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/tool/order"
	"github.com/waybill-release/waybill/pkg/tool/slice"
)

// Given is one file or image of a release that another tool made: its name in
// the release, and its name in the place from which it is taken over. The
// latter is REPOSITORY:TAG for an image.
type Given struct {
	Name string `json:"name"`
	From string `json:"from"`
}

// IsGiven reports whether another tool makes the release: nothing is built, and
// its files and images are taken over unchanged.
func (p Plan) IsGiven() bool { return len(p.Given)+len(p.GivenImages) > 0 }

const mediaJSON = "application/json"

// given is an output that no step makes.
type given struct {
	output
	from, provenance, sbom text
	platforms              []text // of an image
	described              bool   // the seal makes an SBOM of it
}

// isEvidence reports whether the output is evidence about other outputs, which
// name it.
func (g given) isEvidence() bool { return g.class == Provenance || g.class == SBOM }

// readMakers reads how the release is made: by steps, or by another tool.
func (c *Config) readMakers(top object) {
	outputs := top.get("outputs")
	if !outputs.given() {
		c.steps = c.readSteps(top.need("steps", "no steps: a release needs steps, or the outputs of another tool"))
		if m := top.get("outside"); m.given() {
			m.fail("outside is only for a release that another tool makes")
		}
		return
	}
	for _, key := range []string{"steps", "lock", "modules", "downloads", "parameters", "defaults", "provenance", "sboms"} {
		if m := top.get(key); m.given() {
			m.fail("%s does not apply to outputs of another tool; leave out this key or outputs", key)
		}
	}
	c.given = slice.Map(outputs.items("outputs"), c.readGiven)
	if m := top.get("outside"); m.given() {
		c.outside = slice.Map(m.items("files in the place that are not part of the release"), c.readOutside)
	}
}

func (c *Config) readGiven(n node) given {
	o := n.object("class", "name", "each", "from", "provenance", "sbom", "evidence", "platforms", "alsoPerArch")
	g := given{
		output: output{at: n.at, class: Class(o.need("class", "say what it is").text().s), each: c.readEach(o.get("each"))},
		from:   o.get("from").text(), provenance: o.get("provenance").text(), sbom: o.get("sbom").text(),
	}
	g.name = o.need("name", "every output needs a name").text()
	if known := []Class{Binary, Archive, Other, Image, SBOM, Provenance, Sums, Checksum}; g.class != "" && !slices.Contains(known, g.class) {
		o.get("class").fail("class %s: an output of another tool has class %s", quote(string(g.class)), known)
	}
	for _, item := range o.get("evidence").items("sbom") {
		if g.described = item.text().s == string(KindSBOM) && (g.class == Binary || g.class == Archive || g.class == Other) && !g.sbom.given(); !g.described {
			item.fail("want [sbom], which is made when the release is sealed, and only of a binary, archive or file without an SBOM of the other tool")
		}
	}
	if g.class == Image {
		g.platforms, g.perArch = c.lists.platforms(o.need("platforms", "name the list of its platforms")), o.get("alsoPerArch").text()
		return g
	}
	for _, key := range []string{"platforms", "alsoPerArch"} {
		if m := o.get(key); m.given() {
			m.fail("only an image has %s", key)
		}
	}
	if (g.isEvidence() || g.class == Sums || g.class == Checksum) && (g.provenance.given() || g.sbom.given()) {
		o.get("class").fail("class %s: evidence has no evidence of its own", quote(string(g.class)))
	}
	return g
}

// readOutside reads a name, or one that is repeated.
func (c *Config) readOutside(n node) output {
	if n.isText() {
		return output{at: n.at, name: n.text()}
	}
	o := n.object("name", "each")
	return output{at: n.at, name: o.need("name", "name the files").text(), each: c.readEach(o.get("each"))}
}

// givens expands the outputs of another tool: evidence first, because the
// others name it.
func (x *expander) givens(base scope) {
	for _, evidence := range []bool{true, false} {
		for _, g := range x.c.given {
			if g.isEvidence() != evidence {
				continue
			}
			for _, sc := range x.combine(base, g.each, g.at) {
				x.planGiven(g, sc)
				if x.fault != nil {
					return
				}
			}
		}
	}
	for _, o := range x.c.outside {
		for _, sc := range x.combine(base, o.each, o.at) {
			x.p.Outside = append(x.p.Outside, x.fill(o.name, sc))
		}
	}
	x.p.Outside = slice.Unique(x.p.Outside)
	if len(x.p.Outside) > maxArtifacts {
		x.fail(x.c.name.at, "%d files outside of the release, more than %d", len(x.p.Outside), maxArtifacts)
	}
	for _, list := range [][]Given{x.p.Given, x.p.GivenImages} {
		order.Sort(list, func(a, b Given) int { return strings.Compare(a.Name, b.Name) })
	}
}

// planGiven plans one file or image, and the evidence that came with it. One file
// can be evidence about many.
func (x *expander) planGiven(g given, sc scope) {
	if g.class == Image {
		x.giveImage(g, sc)
		return
	}
	a := x.file(variant{g.output, sc}, "")
	from := a.Name
	if g.from.given() {
		from = x.fill(g.from, sc)
	}
	switch {
	case g.isEvidence():
		a.MediaType, a.Platform = carriedMedia(a.Name, g.class), ""
	case g.class == Checksum:
		a.MediaType, a.Platform, a.Of = mediaText, "", strings.TrimSuffix(a.Name, path.Ext(a.Name))
		if ext := path.Ext(a.Name); ext != ".sha256" && ext != ".sha512" {
			x.fail(g.name.at, "artifact %s: a checksum is named after its file and ends in .sha256 or .sha512", quote(a.Name))
		}
	case g.class == Sums:
		a.MediaType, a.Platform = mediaText, ""
		fallthrough
	default:
		a.Evidence = append(x.carryAll(g, sc), Evidence{kindBundle, BundleName(a.Name)})
		if g.described {
			a.Evidence = append(a.Evidence, Evidence{KindSBOM, SBOMName(a.Name)})
		}
	}
	x.offerGiven(a, from, g.name.at)
}

// giveImage plans an image that another tool builds as it would plan one that a
// step builds: the index, a child for each platform, and, if each platform has a
// repository of its own, the image in each of them.
func (x *expander) giveImage(g given, sc scope) {
	repository := x.fill(g.name, sc)
	from, tag := repository, x.p.Version.ImageTag()
	if g.from.given() {
		from = x.fill(g.from, sc)
	}
	if i := strings.LastIndexByte(from, ':'); i > strings.LastIndexByte(from, '/') {
		from, tag = from[:i], from[i+1:]
	}
	index := Artifact{
		Name: "oci/" + repository, Class: Image, MediaType: mediaIndex, Place: placeImages,
		Repository: repository, Tags: []string{x.p.Version.ImageTag()}, Evidence: append(x.carryAll(g, sc), Evidence{Kind: kindSignature}),
	}
	offer := func(a Artifact, from string, at where) {
		x.add(a, at)
		x.p.GivenImages = append(x.p.GivenImages, Given{a.Name, from + ":" + tag})
	}
	offer(index, from, g.name.at)
	for _, p := range g.platforms {
		child := index
		child.Name, child.Class, child.MediaType = index.Name+"/"+p.s, ImageChild, mediaImage
		child.Platform, child.Tags, child.Of = p.s, nil, index.Name
		child.Evidence = slices.DeleteFunc(slices.Clone(index.Evidence), func(e Evidence) bool { return e.Kind == KindSBOM })
		x.add(child, g.name.at)
		if g.perArch.given() {
			alone := child
			alone.Repository = x.fill(g.perArch, sc.with(platformVar, p.s))
			alone.Name, alone.Class, alone.Tags, alone.Of = "oci/"+alone.Repository, Image, index.Tags, child.Name
			offer(alone, alone.Repository, g.perArch.at)
		}
	}
}

// carryAll plans the evidence that came with an output.
func (x *expander) carryAll(g given, sc scope) (list []Evidence) {
	if g.provenance.given() {
		list = append(list, Evidence{KindProvenance, x.carry(g.provenance, sc, Provenance)})
	}
	if g.sbom.given() {
		list = append(list, Evidence{KindSBOM, x.carry(g.sbom, sc, SBOM)})
	}
	return list
}

// carry plans a file of evidence, once.
func (x *expander) carry(t text, sc scope, class Class) string {
	name := x.fill(t, sc)
	if i := slices.IndexFunc(x.p.Artifacts, func(a Artifact) bool { return a.Name == name }); i >= 0 && x.p.Artifacts[i].Class == class {
		return name
	}
	x.offerGiven(Artifact{Name: name, Class: class, MediaType: carriedMedia(name, class), Place: placeFiles}, name, t.at)
	return name
}

func carriedMedia(name string, class Class) string {
	switch {
	case class == SBOM:
		return sbomMedia(name)
	case strings.HasSuffix(name, ".sigstore.json"):
		return MediaBundle
	}
	return mediaJSON
}

func (x *expander) offerGiven(a Artifact, from string, at where) {
	if strings.HasPrefix(a.Name, "oci/") {
		x.fail(at, "artifact %s: names under oci/ are of images", quote(a.Name))
	}
	if err := releasemanifest.CheckName(from); err != nil {
		x.fail(at, "from: %v", err)
	}
	x.add(a, at)
	x.p.Given = append(x.p.Given, Given{a.Name, from})
}

// evidenceGiven plans the evidence that the seal adds to files of another tool.
// Existing evidence of that tool under the same name stays.
func (x *expander) evidenceGiven() {
	var more []Artifact
	plan := func(a Artifact) bool {
		if _, made := x.origin[a.Name]; made && a.Class != Signature {
			return false
		}
		more = append(more, a)
		return true
	}
	for _, a := range x.p.Artifacts {
		if a.Class == Provenance || a.Class == SBOM || a.Class == Checksum || a.IsImage() {
			continue
		}
		plan(about(BundleName(a.Name), Signature, MediaBundle, a.Name))
		if a.Class == Sums {
			continue
		}
		if slices.Contains(a.Evidence, Evidence{KindSBOM, SBOMName(a.Name)}) { // else another tool made it
			plan(about(SBOMName(a.Name), SBOM, mediaSPDX, a.Name))
		}
		for _, algorithm := range x.c.places.sidecars {
			plan(about(a.Name+"."+algorithm, Checksum, mediaText, a.Name))
		}
	}
	plan(about(ConfigName, ConfigFile, mediaYAML, ""))
	for _, name := range x.c.places.sums {
		sums := about(name, Sums, mediaText, "")
		sums.Evidence = []Evidence{{kindBundle, BundleName(name)}}
		if plan(sums) {
			plan(about(BundleName(name), Signature, MediaBundle, name))
		}
	}
	if len(x.p.Artifacts)+len(more) > maxArtifacts {
		x.fail(x.c.name.at, "%d artifacts with their evidence, more than %d; make fewer, or several releases", len(x.p.Artifacts)+len(more), maxArtifacts)
	}
	x.p.Artifacts = append(x.p.Artifacts, more...)
}
