package plan

import (
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/slice"
)

// loop repeats a step or an output for each value of a variable.
type loop struct {
	name   text
	values []text
}

// Platform is the one variable with parts: os, arch and exe follow from it.
const platformVar = "platform"

// step is one step of the file. Exactly one of its kinds is set.
type step struct {
	name         text
	at           where
	each         []loop
	run          []text
	gobuild      *gobuild
	archive      *archive
	image        *image
	checksums    *checksums
	surroundings surroundings
	take         []text // for a step that runs a command
	outputs      []output
}

// runs reports whether the step runs code of the source.
func (s step) runs() bool { return len(s.run) > 0 || s.gobuild != nil }

// output is one output of a step, or one for each value of its own loop.
type output struct {
	at      where
	class   Class
	name    text
	on      []text // platforms; nil for all
	each    []loop
	take    taking
	perArch text
}

// taking is what goes into an archive or a checksum file.
type taking struct {
	source bool
	names  []text
}

func (t taking) given() bool { return t.source || len(t.names) > 0 }

func (c *Config) readSteps(n node) (list []step) {
	seen := map[string]bool{}
	for _, item := range n.items("steps") {
		s := c.readStep(item)
		if s.name.given() && (!isName(s.name.s) || seen[s.name.s]) {
			n.r.faults = append(n.r.faults, s.name.at.fault(
				"step %s: want a name of lower-case letters, digits and dashes, used once", quote(s.name.s)))
		}
		seen[s.name.s] = true
		list = append(list, s)
	}
	return list
}

// stepKinds are the keys of which a step has exactly one.
func stepKinds() []string { return []string{"run", "go", "archive", "image", "checksums"} }

func (c *Config) readStep(n node) step {
	o := n.object(slices.Concat([]string{"name", "each"}, stepKinds(), surroundingKeys(), []string{"take", "outputs"})...)
	s := step{at: n.at, name: o.need("name", "every step needs a name").text(), each: c.readEach(o.get("each"))}
	kinds := slice.Count(stepKinds(), func(k string) bool { return o.get(k).given() })
	if kinds != 1 {
		n.fail("want exactly one of %s", strings.Join(stepKinds(), ", "))
		return s
	}
	s.run = o.get("run").arguments()
	s.gobuild = readGo(o.get("go"))
	s.archive = c.readArchive(o.get("archive"))
	s.image = c.readImage(o.get("image"))
	s.checksums = c.readChecksums(o.get("checksums"))
	s.surroundings = readSurroundings(o)
	for _, k := range surroundingKeys() {
		if m := o.get(k); m.given() && !s.runs() && kinds == 1 {
			m.fail("only a step that runs a command has %s", k)
		}
	}
	if m := o.get("take"); m.given() {
		s.take = c.lists.flat(m, m.words("earlier outputs or downloads, or +name to include a list"))
		if !s.runs() {
			m.fail("take is only for a step that runs a command; for an archive or checksums, write take below that key")
		}
	}
	outputs := o.need("outputs", "a step needs at least one output").items("outputs")
	s.outputs = slice.Map(outputs, func(item node) output { return c.readOutput(item, s) })
	s.check(n.r)
	return s
}

func (c *Config) readEach(n node) (list []loop) {
	if !n.given() {
		return nil
	}
	keys, values := n.pairs("a mapping from variables to lists")
	for i, key := range keys {
		l := loop{name: key}
		if key.s == platformVar {
			l.values = c.lists.platforms(values[i])
		} else {
			l.values = c.lists.read(values[i])
		}
		if key.given() && (!isName(key.s) || slices.Contains(builtin(), key.s)) {
			values[i].fail("variable %s: want another name of lower-case letters, digits and dashes", quote(key.s))
		}
		list = append(list, l)
	}
	if len(list) == 0 {
		n.fail("empty; leave each out or name a variable")
	}
	return list
}

func (c *Config) readOutput(n node, s step) output {
	o := n.object("class", "name", "on", "each", "take", "alsoPerArch")
	out := output{at: n.at, class: Class(o.need("class", "name the class").text().s), each: c.readEach(o.get("each"))}
	out.name = o.need("name", "every output needs a name").text()
	if m := o.get("on"); m.given() {
		out.on = c.lists.some(m)
		s.checkOn(m, out)
	}
	if m := o.get("take"); m.given() {
		out.take = c.readTake(m)
		if s.archive == nil && s.checksums == nil {
			m.fail("only an archive or a checksum file takes earlier outputs")
		}
	}
	if m := o.get("alsoPerArch"); m.given() {
		out.perArch = m.text()
		if s.image == nil {
			m.fail("only an image has one for each platform")
		}
	}
	if known := s.classes(); out.class != "" && !slices.Contains(known, out.class) {
		o.get("class").fail("class %s: this step can make %s", quote(string(out.class)), known)
	}
	s.checkShadow(n, out)
	return out
}

// checkOn refuses a condition that can never be met, or has nothing to select
// from.
func (s step) checkOn(n node, out output) {
	var platforms []text
	for _, l := range s.each {
		if l.name.s == platformVar {
			platforms = l.values
		}
	}
	if platforms == nil {
		n.fail("on needs each.platform of the step to select from")
		return
	}
	for _, t := range out.on {
		if !slices.ContainsFunc(platforms, func(p text) bool { return p.s == t.s }) {
			n.fail("the step never runs for %s", quote(t.s))
			return
		}
	}
}

// checkShadow refuses a variable that would have two meanings.
func (s step) checkShadow(n node, out output) {
	for _, inner := range out.each {
		for _, outer := range s.each {
			if inner.name.s == outer.name.s {
				n.r.faults = append(n.r.faults, inner.name.at.fault("variable %s is already a variable of the step", quote(inner.name.s)))
			}
		}
		if s.image != nil || s.gobuild != nil {
			n.r.faults = append(n.r.faults, inner.name.at.fault("the step makes exactly one output; repeat the step with each of its own"))
		}
	}
}

func (s step) classes() []Class {
	switch {
	case s.archive != nil:
		return []Class{Archive}
	case s.image != nil:
		return []Class{Image}
	case s.checksums != nil:
		return []Class{Other}
	case s.gobuild != nil:
		return []Class{Binary}
	}
	return []Class{Binary, Archive, Other}
}

// readTake reads the outputs to take, or the whole source.
func (c *Config) readTake(n node) taking {
	if n.isText() {
		n.choice("source")
		return taking{source: true}
	}
	return taking{names: c.lists.flat(n, n.words("earlier outputs, or +name to include a list"))}
}
