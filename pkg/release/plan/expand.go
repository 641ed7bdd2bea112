package plan

import (
	"errors"
	"path"
	"strings"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Limits on expansion. They are checked before anything is made, so that a
// small file cannot request a large plan.
const (
	maxArtifacts = 100_000
	maxText      = 64 << 20 // bytes of all expanded templates
)

// Expand makes the plan of one version, with the default of every parameter.
func (c Config) Expand(v version.Version) (Plan, error) { return c.ExpandWith(v, nil) }

// ExpandWith makes the plan of one version with the given parameters.
func (c Config) ExpandWith(v version.Version, parameters map[string]string) (Plan, error) {
	if v.IsZero() {
		return Plan{}, invalid("version", "no version was given")
	}
	if len(c.steps) == 0 && len(c.given) == 0 {
		return Plan{}, verdict.Refuse(verdict.ConfigParse, ConfigName, "the configuration has neither steps nor outputs")
	}
	chosen, err := c.chosen(parameters)
	if err != nil {
		return Plan{}, err
	}
	x := &expander{c: c, p: &Plan{
		Schema: planSchema, Name: c.name.s, Version: v, Repository: c.repository.s, ReleaseCommit: c.commit,
		Parameters: chosen, Locked: c.lock.given(), Downloads: c.addresses(), ProvenanceV02: c.v02,
	}, words: map[word][]string{}, made: map[string]bool{}, origin: map[string]where{}}
	if len(c.modules) > 0 {
		x.p.Modules = c.Needs().Modules
	}
	if err := x.expand(); err != nil {
		return Plan{}, err
	}
	return *x.p, nil
}

// expander makes one plan and keeps the first fault.
type expander struct {
	c       Config
	p       *Plan
	fault   *Fault
	written int
	words   map[word][]string // outputs by platform and last name
	made    map[string]bool   // outputs that a step can take
	origin  map[string]where  // where each output is written in release.yaml
}

// word finds an output by name without its directory.
type word struct{ platform, name string }

func (x *expander) fail(at where, format string, args ...any) {
	if x.fault == nil {
		f := at.fault(format, args...)
		x.fault = &f
	}
}

// countText counts the generated text, plus 16 bytes for each string header.
func (x *expander) countText(at where, n int) {
	if x.written += n + 16; x.written > maxText {
		x.fail(at, "the plan is too large: more than %d MiB of text", maxText>>20)
	}
}

func (x *expander) expand() error {
	base := x.baseScope()
	x.places(base)
	for _, s := range x.c.steps {
		for _, sc := range x.combine(base, s.each, s.at) {
			x.instance(s, sc)
			if x.fault != nil {
				break
			}
		}
	}
	if x.fault == nil {
		x.givens(base)
	}
	if x.fault == nil {
		x.evidence(base)
	}
	if x.fault == nil {
		x.p.sort()
		x.report(x.p.check())
	}
	if x.fault != nil {
		return refusal(ConfigName, Faults{*x.fault})
	}
	return nil
}

// report attaches the position of the nearest output to an error of the whole
// plan.
func (x *expander) report(err error) {
	if err == nil {
		return
	}
	at := x.c.name.at
	if named, is := errors.AsType[*nameError](err); is {
		a, _ := x.p.Find(named.name)
		for _, name := range []string{named.name, a.Of, a.Step} {
			if w, known := x.origin[name]; known {
				at = w
				break
			}
		}
		for _, d := range x.c.downloads {
			if d.key.s == named.name {
				at = d.key.at
			}
		}
	}
	x.fail(at, "%s", err.Error())
}

func (x *expander) places(s scope) {
	p := x.p
	p.Files = x.fill(x.c.places.files, s)
	p.Owns.Files = "prefix"
	if x.c.places.images.given() {
		p.Images = x.fill(x.c.places.images, s)
		p.Owns.Tags = []string{p.Version.ImageTag()}
	}
	p.Tag = p.Version.String()
	if t := x.c.version.tag; t.given() {
		p.Tag = x.fill(t, s)
	}
	seen := map[string]bool{}
	for _, t := range x.c.markers {
		name := x.fill(t, s)
		if err := releasemanifest.CheckName(name); err != nil && x.fault == nil {
			x.fail(t.at, "%v", err)
		}
		if seen[name] {
			x.fail(t.at, "two markers are named %s", quote(name))
		}
		seen[name] = true
		p.Markers = append(p.Markers, name)
	}
}

// combine lists all combinations of the loops' values; the last loop varies
// fastest. It checks the number first.
func (x *expander) combine(s scope, loops []loop, at where) []scope {
	turns := 1
	for _, l := range loops {
		if turns *= len(l.values); turns > maxArtifacts {
			x.fail(at, "each: more than %d combinations; the plan would be too large", maxArtifacts)
			return nil
		}
	}
	list := []scope{s}
	for _, l := range loops {
		next := make([]scope, 0, len(list)*len(l.values))
		for _, outer := range list {
			for _, v := range l.values {
				x.countText(v.at, len(v.s)*4)
				if x.fault != nil {
					return nil
				}
				next = append(next, outer.with(l.name.s, v.s))
			}
		}
		list = next
	}
	return list
}

// add adds one output to the plan, within the limits.
func (x *expander) add(a Artifact, at where) {
	if len(x.p.Artifacts) >= maxArtifacts {
		x.fail(at, "more than %d artifacts; make fewer, or several releases", maxArtifacts)
	}
	if err := checkArtifactName(a); err != nil {
		x.fail(at, "%v", err)
	}
	if x.made[a.Name] || x.origin[a.Name].line > 0 {
		x.fail(at, "two artifacts are named %s; give one of them another name", quote(a.Name))
	}
	if x.fault == nil {
		x.origin[a.Name] = at
		x.p.Artifacts = append(x.p.Artifacts, a)
	}
}

// offerOutputs makes the outputs of a complete step available to later steps.
func (x *expander) offerOutputs(step Step) {
	for _, a := range x.p.Artifacts[len(x.p.Artifacts)-len(step.Outputs):] {
		if a.IsImage() {
			continue // an image is no file, so no step can take it
		}
		x.made[a.Name] = true
		base := path.Base(a.Name)
		goos, _, _ := strings.Cut(a.Platform, "/")
		names := []string{base}
		if short := strings.TrimSuffix(base, exeOf(goos)); short != base {
			names = append(names, short)
		}
		for _, n := range names {
			x.words[word{a.Platform, n}] = append(x.words[word{a.Platform, n}], a.Name)
		}
	}
	x.p.Steps = append(x.p.Steps, step)
}

// takeInput finds the earlier output that a step takes.
func (x *expander) takeInput(t text, s scope) string {
	name, download := x.findInput(t, s)
	if download {
		x.fail(t.at, "takes %s, which is a download; only a step that runs a command takes those, or image.import", quote(name))
	}
	return name
}

// findInput finds the earlier output that is meant: by its whole name, or by its
// last part among the outputs for the same platform. A download has one name.
func (x *expander) findInput(t text, s scope) (_ string, download bool) {
	name := x.fill(t, s)
	var found []string
	if x.p.Downloads[name] != "" {
		found, download = append(found, name), true
	}
	if x.made[name] {
		found = append(found, name)
	}
	for _, other := range x.words[word{s.platform, name}] {
		if other != name {
			found = append(found, other)
		}
	}
	switch {
	case x.fault != nil:
	case len(found) == 0 && (x.origin["oci/"+name].line > 0 || x.origin[name].line > 0 && strings.HasPrefix(name, "oci/")):
		x.fail(t.at, "takes %s, which is an image; an image is no file", quote(name))
	case len(found) == 0 && s.platform != "":
		x.fail(t.at, "takes %s for %s, which no earlier step makes", quote(name), s.platform)
	case len(found) == 0:
		x.fail(t.at, "takes %s, which no earlier step makes", quote(name))
	case len(found) > 1:
		x.fail(t.at, "takes %s, which is ambiguous: %s; write the whole name", quote(name), strings.Join(found, " or "))
	default:
		return found[0], download
	}
	return "", false
}
