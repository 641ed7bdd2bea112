package plan

import (
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/slice"
)

// instance expands a step for one combination of its loops' values.
func (x *expander) instance(s step, sc scope) {
	name := s.name.s
	for _, v := range sc.values {
		name += "-" + strings.ReplaceAll(v, "/", "-")
	}
	base := Step{Name: s.name.s, Instance: name, Each: sc.each}
	switch {
	case s.image != nil:
		x.image(s, sc, base)
	case s.archive != nil || s.checksums != nil:
		x.packed(s, sc, base)
	default:
		x.command(s, sc, base)
	}
}

// variant is one output with the values of its loops.
type variant struct {
	output
	scope
}

// variants lists the outputs of a step for one combination of values.
func (x *expander) variants(s step, sc scope) (list []variant) {
	for _, o := range s.outputs {
		if o.on != nil && !slices.ContainsFunc(o.on, func(t text) bool { return t.s == sc.platform }) {
			continue
		}
		for _, inner := range x.combine(sc, o.each, o.at) {
			list = append(list, variant{o, inner})
		}
	}
	if len(list) == 0 {
		x.fail(s.at, "step %s has no output for %s; leave that platform out, or plan an output", quote(s.name.s), sc.platform)
	}
	return list
}

func (x *expander) command(s step, sc scope, step Step) {
	use := s.surroundings.withDefaults(x.c.defaults.step)
	inside := sc.command()
	if step.Take, step.Downloads = x.input(s.take, sc); len(s.take) > 0 {
		inside.vars["in"] = InputDir
	}
	for _, t := range x.variants(s, sc) {
		a := x.file(t, step.Instance)
		step.Outputs = append(step.Outputs, a.Name)
		x.add(a, t.name.at)
	}
	env := map[string]string{}
	for _, v := range use.env {
		env[v.key.s] = x.fill(v.value, inside)
	}
	step.Run = x.fillAll(s.run, inside)
	if s.gobuild != nil && x.fault == nil {
		step.Run = x.gobuild(*s.gobuild, inside, step.Outputs[0])
		env["GOOS"], env["GOARCH"], env["CGO_ENABLED"] = inside.vars["os"], inside.vars["arch"], "0"
		if s.gobuild.cgo {
			env["CGO_ENABLED"] = "1"
		}
	}
	step.Env = append(step.Env, slice.Map(sortedKeys(env), func(k string) string { return k + "=" + env[k] })...)
	step.Tools = append(step.Tools, wordsOf(use.tools)...)
	if use.root == Scratch {
		step.Root = Scratch
	}
	step.Network = append([]string(nil), use.network...)
	if !use.limits.IsZero() {
		l := use.limits
		step.Limits = &l
	}
	if x.fault == nil {
		x.offerOutputs(step)
	}
}

// gobuild writes out the command of the built-in Go step. The program must not
// depend on where or when it is built.
func (x *expander) gobuild(g gobuild, s scope, output string) []string {
	run, out := []string{"go"}, outputDir+"/"+output
	if g.dir.given() {
		run = append(run, "-C", g.dir.s)
		out = strings.Repeat("../", strings.Count(g.dir.s, "/")+1) + out
	}
	run = append(run, "build", "-trimpath", "-buildvcs=false")
	if len(g.tags) > 0 {
		run = append(run, "-tags="+strings.Join(x.fillAll(g.tags, s), ","))
	}
	if g.ldflags.given() {
		run = append(run, "-ldflags="+x.fill(g.ldflags, s))
	}
	main := "."
	if g.main.given() {
		main = x.fill(g.main, s)
	}
	return append(run, "-o", out, main)
}

// file makes the artifact of an output that is a file.
func (x *expander) file(t variant, instance string) Artifact {
	a := Artifact{
		Name: x.fill(t.name, t.scope), Class: t.class, MediaType: mediaOctet, Place: placeFiles,
		Platform: t.platform, Step: instance,
	}
	if a.Class == Archive {
		a.MediaType = mediaGzip
	}
	return a
}

// packed expands a step that packs earlier outputs. In the plan, each of its
// files is a step of its own, so that its provenance names only its own inputs.
func (x *expander) packed(s step, sc scope, base Step) {
	single := len(s.outputs) == 1 && len(s.outputs[0].each) == 0
	for _, t := range x.variants(s, sc) {
		step := base
		a := x.file(t, step.Instance)
		if !single {
			step.Instance += "-" + strings.ReplaceAll(a.Name, "/", "-")
			step.Each, a.Step = t.scope.each, step.Instance
		}
		step.Outputs = []string{a.Name}
		if s.archive != nil {
			step.Archive = x.archive(*s.archive, t)
			if step.Archive.Zip {
				a.MediaType = mediaZip
			}
		} else {
			a.MediaType = mediaText
			step.Checksums = &ChecksumStep{Algorithm: s.checksums.algorithm, Take: x.takeAll(s.checksums.take, t)}
		}
		x.add(a, t.name.at)
		if x.fault != nil {
			return
		}
		x.offerOutputs(step)
	}
}

func (x *expander) archive(a archive, t variant) *ArchiveStep {
	step := &ArchiveStep{Zip: a.format == formatZip, Root: a.root.s, Add: x.fillAll(a.add, t.scope), Take: x.takeAll(a.take, t)}
	step.Source = t.take.source || !t.take.given() && a.take.source
	if name := x.fill(t.name, t.scope); step.Zip != strings.HasSuffix(name, ".zip") {
		x.fail(t.name.at, "archive %s: its name must end in .zip if its format is zip, and only then", quote(name))
	}
	if step.Source && len(step.Add) > 0 {
		// The whole source already contains these files.
		step.Add = nil
	}
	if err := step.check(); err != nil {
		x.fail(t.at, "%v", err)
	}
	return step
}

// takeAll resolves the inputs of an output; those of the step apply to outputs
// without their own.
func (x *expander) takeAll(fallback taking, t variant) (names []string) {
	list := t.take
	if !list.given() {
		list = fallback
	}
	return slice.Map(list.names, func(n text) string { return x.takeInput(n, t.scope) })
}

// image expands one image: its index, a child for each platform, and the
// repositories with the image of a single platform.
func (x *expander) image(s step, sc scope, step Step) {
	if len(s.outputs) != 1 {
		return
	}
	o, spec := s.outputs[0], s.image
	repository := x.fill(o.name, sc)
	step.Image = &ImageStep{Base: spec.base.s, Repository: repository, Entrypoint: x.fillAll(spec.entrypoint, sc), User: spec.user.s}
	if spec.imported.given() {
		name, download := x.findInput(spec.imported, sc)
		if step.Image.Import = name; download {
			step.Downloads = []string{name}
		}
	}
	index := Artifact{
		Name: "oci/" + repository, Class: Image, MediaType: mediaIndex, Place: placeImages, Step: step.Instance,
		Repository: repository, Tags: []string{x.p.Version.ImageTag()},
	}
	step.Outputs = []string{index.Name}
	x.add(index, o.name.at)
	for _, p := range spec.platforms {
		inner := sc.with(platformVar, p.s)
		pf := PlatformFiles{Platform: p.s, Files: x.imageFiles(spec.files, inner)}
		child := index
		child.Name, child.Class, child.MediaType = index.Name+"/"+p.s, ImageChild, mediaImage
		child.Platform, child.Tags, child.Of = p.s, nil, index.Name
		step.Outputs = append(step.Outputs, child.Name)
		x.add(child, o.name.at)
		if o.perArch.given() {
			pf.Also = x.fill(o.perArch, inner)
			alone := child
			alone.Name, alone.Class, alone.Repository = "oci/"+pf.Also, Image, pf.Also
			alone.Tags, alone.Of = index.Tags, child.Name
			step.Outputs = append(step.Outputs, alone.Name)
			x.add(alone, o.perArch.at)
		}
		step.Image.Platforms = append(step.Image.Platforms, pf)
	}
	if x.fault == nil {
		x.offerOutputs(step)
	}
}

// imageFiles expands the templates of paths and outputs. Two equal paths are
// refused, since the file there would be arbitrary.
func (x *expander) imageFiles(list []pair, s scope) map[string]string {
	if len(list) == 0 {
		return nil
	}
	files := make(map[string]string, len(list))
	for _, f := range list {
		path := x.fill(f.key, s)
		if _, taken := files[path]; taken {
			x.fail(f.key.at, "image.files: two entries are named %s", quote(path))
		}
		files[path] = x.takeInput(f.value, s)
	}
	return files
}
