package plan

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/slice"
)

// Placeholders that only the build can fill. They stay in the plan and
// [Step.At] fills them, so that the plan of a version is the same for everyone
// who has release.yaml, with or without the repository.
const (
	commitTime = "commit.time"
	commitID   = "commit.id"
)

// builtin are names that no variable may have.
func builtin() []string {
	return []string{"version", "name", "major", "minor", "patch", "channel", "in", "out", "os", "arch", "exe", "commit", "parameter"}
}

// scope maps the placeholders of a template to their values.
type scope struct {
	vars     map[string]string
	platform string
	values   []string // of the variables of each, in the order of the file
	each     map[string]string
}

// with is the scope inside one combination of a loop's values.
func (s scope) with(name, value string) scope {
	inner := scope{vars: maps.Clone(s.vars), platform: s.platform, each: maps.Clone(s.each)}
	inner.values = append(slices.Clone(s.values), value)
	if inner.each == nil {
		inner.each = map[string]string{}
	}
	inner.each[name] = value
	inner.vars[name] = value
	if name == platformVar {
		goos, arch, _ := strings.Cut(value, "/")
		inner.platform = value
		inner.vars["os"], inner.vars["arch"], inner.vars["exe"] = goos, arch, exeOf(goos)
	}
	return inner
}

func exeOf(goos string) string {
	if goos == "windows" {
		return ".exe"
	}
	return ""
}

// baseScope has the placeholders of every template.
func (x *expander) baseScope() scope {
	v := x.p.Version
	vars := map[string]string{
		"version": v.String(), "version.number": strings.TrimPrefix(v.String(), "v"), "name": x.p.Name,
		"major": strconv.Itoa(v.Major()), "minor": strconv.Itoa(v.Minor()), "patch": strconv.Itoa(v.Patch()),
		"channel": v.Channel().String(),
	}
	for name, value := range x.p.Parameters {
		vars["parameter."+name] = value
	}
	return scope{vars: vars}
}

// command is the scope of commands: it also has the output directory and the
// commit.
func (s scope) command() scope {
	inner := s
	inner.vars = maps.Clone(s.vars)
	inner.vars["out"] = outputDir
	for _, name := range []string{commitTime, commitID} {
		inner.vars[name] = "{" + name + "}"
	}
	return inner
}

// fill replaces every {name}; "{{" is a literal brace. An unknown name is a
// fault, not an empty string.
func (x *expander) fill(t text, s scope) string {
	var b strings.Builder
	deferred := 0
	for rest := t.s; ; {
		open := strings.IndexByte(rest, '{')
		if open < 0 {
			b.WriteString(rest)
			break
		}
		b.WriteString(rest[:open])
		if strings.HasPrefix(rest[open:], "{{") {
			b.WriteByte('{')
			rest = rest[open+2:]
			continue
		}
		end := strings.IndexByte(rest[open:], '}')
		if end < 0 {
			x.fail(t.at, `template %s: no closing brace; write "{{" for a brace`, quote(t.s))
			return ""
		}
		name := rest[open+1 : open+end]
		value, known := s.vars[name]
		if !known {
			x.fail(t.at, "template %s: {%s} is not defined here; defined here: %s", quote(t.s), printable(name), s.known())
			return ""
		}
		if strings.HasPrefix(name, "commit.") {
			deferred++
		}
		b.WriteString(value)
		rest = rest[open+end+1:]
	}
	out := b.String()
	// Only placeholders may contain what At replaces.
	if strings.Count(out, "{commit.") != deferred {
		x.fail(t.at, `template %s: the text "{commit." is reserved for placeholders of the build; write it another way`, quote(t.s))
	}
	x.countText(t.at, len(out))
	return out
}

func (s scope) known() string {
	return strings.Join(slice.Map(slices.Sorted(maps.Keys(s.vars)), func(n string) string { return "{" + n + "}" }), " ")
}

// printable makes the name of a placeholder fit to print.
func printable(name string) string {
	q := quote(name)
	return q[1 : len(q)-1]
}

func (x *expander) fillAll(list []text, s scope) []string {
	return slice.Map(list, func(t text) string { return x.fill(t, s) })
}

// At fills in the commit and its time in seconds, which only the build knows.
func (s Step) At(commit string, time int64) Step {
	fill := strings.NewReplacer("{"+commitTime+"}", strconv.FormatInt(time, 10), "{"+commitID+"}", commit)
	s.Run, s.Env = slices.Clone(s.Run), slices.Clone(s.Env)
	for _, list := range [][]string{s.Run, s.Env} {
		for i := range list {
			list[i] = fill.Replace(list[i])
		}
	}
	return s
}
