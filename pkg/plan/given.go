package plan

import (
	"slices"
	"strings"
)

// Given is one file of a release that another tool made: its name in the
// release, and its name in the place from which it is taken over.
type Given struct {
	Name string `json:"name"`
	From string `json:"from"`
}

// IsGiven reports whether another tool makes the release: nothing is built, and
// its files are taken over as they are.
func (p Plan) IsGiven() bool { return len(p.Given) > 0 }

const mediaJSON = "application/json"

// given is an output that no step makes.
type given struct {
	output
	from, provenance, sbom text
}

// readMakers reads what makes the release: steps, or another tool.
func (c *Config) readMakers(top object) {
	outputs := top.get("outputs")
	if !outputs.given() {
		c.steps = c.readSteps(top.need("steps", "a release without steps makes nothing; name them, or the outputs of another tool"))
		if m := top.get("outside"); m.given() {
			m.fail("only a release that another tool makes has something outside of it")
		}
		return
	}
	for _, key := range []string{"steps", "lock", "modules", "downloads", "parameters", "defaults", "provenance", "sboms"} {
		if m := top.get(key); m.given() {
			m.fail("outputs without steps are of another tool, of which %s says nothing; leave out this or outputs", key)
		}
	}
	for _, item := range outputs.items("outputs") {
		c.given = append(c.given, c.readGiven(item))
	}
	if m := top.get("outside"); m.given() {
		c.outside = m.words("files of the place that are no part of the release")
	}
}

func (c *Config) readGiven(n node) given {
	o := n.object("class", "name", "each", "from", "provenance", "sbom")
	g := given{
		output: output{at: n.at, class: Class(o.need("class", "say what it is").text().s), each: c.readEach(o.get("each"))},
		from:   o.get("from").text(), provenance: o.get("provenance").text(), sbom: o.get("sbom").text(),
	}
	g.name = o.need("name", "every output needs a name").text()
	if known := []Class{Binary, Archive, Other}; g.class != "" && !slices.Contains(known, g.class) {
		o.get("class").fail("class %s: another tool's files are %s", quote(string(g.class)), known)
	}
	return g
}

// givens expands what another tool makes.
func (x *expander) givens(base scope) {
	for _, g := range x.c.given {
		for _, sc := range x.combine(base, g.each, g.at) {
			x.give(g, sc)
			if x.fault != nil {
				return
			}
		}
	}
	for _, t := range x.c.outside {
		x.p.Outside = append(x.p.Outside, x.fill(t, base))
	}
	slices.Sort(x.p.Outside)
	slices.SortFunc(x.p.Given, func(a, b Given) int { return strings.Compare(a.Name, b.Name) })
}

// give plans one file, and the evidence that came with it. One file can be
// evidence of many.
func (x *expander) give(g given, sc scope) {
	a := x.file(turn{g.output, sc}, "")
	from := a.Name
	if g.from.given() {
		from = x.fill(g.from, sc)
	}
	if g.provenance.given() {
		a.Evidence = append(a.Evidence, Evidence{KindProvenance, x.carry(g.provenance, sc, Provenance)})
	}
	if g.sbom.given() {
		a.Evidence = append(a.Evidence, Evidence{KindSBOM, x.carry(g.sbom, sc, SBOM)})
	}
	a.Evidence = append(a.Evidence, Evidence{KindBundle, BundleName(a.Name)})
	x.offerGiven(a, from, g.name.at)
}

// carry plans a file of evidence, once.
func (x *expander) carry(t text, sc scope, class Class) string {
	name := x.fill(t, sc)
	if i := slices.IndexFunc(x.p.Artifacts, func(a Artifact) bool { return a.Name == name }); i >= 0 && x.p.Artifacts[i].Class == class {
		return name
	}
	media := mediaJSON
	switch {
	case class == SBOM:
		media = sbomMedia(name)
	case strings.HasSuffix(name, ".sigstore.json"):
		media = MediaBundle
	}
	x.offerGiven(Artifact{Name: name, Class: class, MediaType: media, Place: PlaceFiles}, name, t.at)
	return name
}

func (x *expander) offerGiven(a Artifact, from string, at where) {
	if strings.HasPrefix(a.Name, "oci/") {
		x.fail(at, "artifact %s: names under oci/ are of images", quote(a.Name))
	}
	if err := CheckName(from); err != nil {
		x.fail(at, "from: %v", err)
	}
	x.add(a, at)
	x.p.Given = append(x.p.Given, Given{a.Name, from})
}

// evidenceGiven plans what the seal makes of files that another tool made. What
// that tool made under the name of it already stays as it is.
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
		if a.Class == Provenance || a.Class == SBOM {
			continue
		}
		plan(about(BundleName(a.Name), Signature, MediaBundle, a.Name))
		for _, algorithm := range x.c.places.sidecars {
			plan(about(a.Name+"."+algorithm, Checksum, mediaText, a.Name))
		}
	}
	plan(about(ConfigName, ConfigFile, mediaYAML, ""))
	for _, name := range x.c.places.sums {
		sums := about(name, Sums, mediaText, "")
		sums.Evidence = []Evidence{{KindBundle, BundleName(name)}}
		if plan(sums) {
			plan(about(BundleName(name), Signature, MediaBundle, name))
		}
	}
	if len(x.p.Artifacts)+len(more) > MaxArtifacts {
		x.fail(x.c.name.at, "%d artifacts with their evidence, more than %d; make fewer, or several releases", len(x.p.Artifacts)+len(more), MaxArtifacts)
	}
	x.p.Artifacts = append(x.p.Artifacts, more...)
}
