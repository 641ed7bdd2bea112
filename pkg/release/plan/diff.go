package plan

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// diffSchema names the JSON form of a [Diff].
const diffSchema = "waybill/plan-diff/v1"

// Diff is the difference between two plans.
type Diff struct {
	Schema  string        `json:"schema"`
	From    digest.Digest `json:"from"`
	To      digest.Digest `json:"to"`
	Added   []Artifact    `json:"added"`
	Lost    []Artifact    `json:"lost"`
	Changed []Change      `json:"changed"` // artifacts, steps, and the release itself
}

// Change is something that both plans have and that differs.
type Change struct {
	What  string `json:"what"` // artifact, step or release
	Name  string `json:"name"`
	Field string `json:"field"`
	Was   string `json:"was"`
	Is    string `json:"is"`
}

// Compare returns the difference between two plans. Plans of two versions are
// compared as if they had the same version: version numbers in names and
// addresses are no change.
func Compare(from, to Plan) Diff {
	d := Diff{Schema: diffSchema, From: from.Digest(), To: to.Digest(), Added: []Artifact{}, Lost: []Artifact{}, Changed: []Change{}}
	if from.Version != to.Version {
		from, to = from.anonymous(), to.anonymous()
	}
	d.heads(from, to)
	d.steps(from, to)
	for _, a := range from.Artifacts {
		b, there := to.Find(a.Name)
		if !there {
			d.Lost = append(d.Lost, a)
			continue
		}
		d.fields("artifact", a.Name, a, b)
	}
	for _, b := range to.Artifacts {
		if _, there := from.Find(b.Name); !there {
			d.Added = append(d.Added, b)
		}
	}
	return d
}

// IsEmpty reports whether nothing changes.
func (d Diff) IsEmpty() bool { return len(d.Added)+len(d.Lost)+len(d.Changed) == 0 }

// Err is the refusal of a difference, or nil.
func (d Diff) Err() error {
	if d.IsEmpty() {
		return nil
	}
	return verdict.Refuse("PLAN_DIFFERS", "plan", "%d added, %d lost, %d changed", len(d.Added), len(d.Lost), len(d.Changed))
}

// heads compares the fields of the whole release.
func (d *Diff) heads(from, to Plan) {
	a, b := from, to
	for _, p := range []*Plan{&a, &b} {
		p.Steps, p.Artifacts = nil, nil
	}
	b.Version = a.Version
	d.fields("release", to.Name, a, b)
}

// steps compares steps by instance.
func (d *Diff) steps(from, to Plan) {
	was := slice.By(from.Steps, func(s Step) string { return s.Instance })
	for _, s := range to.Steps {
		old, there := was[s.Instance]
		if !there {
			d.Changed = append(d.Changed, Change{"step", s.Instance, "", "", "added"})
			continue
		}
		delete(was, s.Instance)
		d.fields("step", s.Instance, old, s)
	}
	for _, name := range sortedKeys(was) {
		d.Changed = append(d.Changed, Change{"step", name, "", "lost", ""})
	}
}

// fields compares two values by the members of their JSON.
func (d *Diff) fields(what, name string, from, to any) {
	if reflect.DeepEqual(from, to) {
		return
	}
	was, is := members(from), members(to)
	keys := sortedKeys(was)
	for _, k := range sortedKeys(is) {
		if _, both := was[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		if string(was[k]) != string(is[k]) {
			d.Changed = append(d.Changed, Change{what, name, k, string(was[k]), string(is[k])})
		}
	}
}

func members(v any) map[string]json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("plan: a plan of strings always encodes: " + err.Error())
	}
	m := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &m); err != nil {
		panic("plan: an object is read as one: " + err.Error())
	}
	return m
}

// anonymous is the plan with its version replaced by the placeholder that it
// came from.
func (p Plan) anonymous() Plan {
	v := p.Version.String()
	replace := strings.NewReplacer(
		v, "{version}", p.Version.ImageTag(), "{version}", strings.TrimPrefix(v, "v"), "{version.number}",
	).Replace
	out := p
	out.Tag, out.Files, out.Images = replace(p.Tag), replace(p.Files), replace(p.Images)
	out.SBOMs = Documents{replace(p.SBOMs.Release), replace(p.SBOMs.Source), p.SBOMs.Supplier}
	out.Owns.Tags, out.Markers = each(p.Owns.Tags, replace), nil // markers change with every version
	out.Steps, out.Artifacts = make([]Step, len(p.Steps)), make([]Artifact, len(p.Artifacts))
	for i, s := range p.Steps {
		out.Steps[i] = s.renamed(replace)
	}
	for i, a := range p.Artifacts {
		a.Name, a.Of, a.Step, a.Repository = replace(a.Name), replace(a.Of), replace(a.Step), replace(a.Repository)
		a.Tags = each(a.Tags, replace)
		a.Evidence = slices.Clone(a.Evidence)
		for j := range a.Evidence {
			a.Evidence[j].Name = replace(a.Evidence[j].Name)
		}
		out.Artifacts[i] = a
	}
	out.sort()
	return out
}

func (s Step) renamed(replace func(string) string) Step {
	s.Instance = replace(s.Instance)
	s.Run, s.Env, s.Outputs = each(s.Run, replace), each(s.Env, replace), each(s.Outputs, replace)
	s.Take = each(s.Take, replace)
	if s.Archive != nil {
		a := *s.Archive
		a.Take, a.Add = each(a.Take, replace), each(a.Add, replace)
		s.Archive = &a
	}
	if s.Checksums != nil {
		c := *s.Checksums
		c.Take = each(c.Take, replace)
		s.Checksums = &c
	}
	if s.Image == nil {
		return s
	}
	i := *s.Image
	i.Repository, i.Entrypoint, i.Import = replace(i.Repository), each(i.Entrypoint, replace), replace(i.Import)
	i.Platforms = slices.Clone(i.Platforms)
	for n, pf := range i.Platforms {
		i.Platforms[n].Also = replace(pf.Also)
		if pf.Files == nil {
			continue
		}
		files := map[string]string{}
		for path, name := range pf.Files {
			files[replace(path)] = replace(name)
		}
		i.Platforms[n].Files = files
	}
	s.Image = &i
	return s
}

func each(list []string, change func(string) string) []string {
	if list == nil {
		return nil
	}
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, change(s))
	}
	return out
}

// String is the change on one line.
func (c Change) String() string {
	switch {
	case c.Field == "":
		return fmt.Sprintf("%s %s %s%s", c.What, c.Name, c.Was, c.Is)
	case c.Was == "" || c.Is == "":
		return fmt.Sprintf("%s %s: %s %s", c.What, c.Name, c.Field, was(c))
	}
	return fmt.Sprintf("%s %s: %s %s → %s", c.What, c.Name, c.Field, c.Was, c.Is)
}

func was(c Change) string {
	if c.Was == "" {
		return "added " + c.Is
	}
	return "lost " + c.Was
}
