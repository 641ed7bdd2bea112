package draft

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// LeftOut is a key of another tool's configuration that is not carried over.
type LeftOut struct{ Key, Why string }

// conversion takes over a configuration of GoReleaser.
type conversion struct {
	*Project
	tree fs.FS
	left []LeftOut
	ids  map[string][]string // build id → names of programs
}

// Convert replaces programs, archives and images by those of the GoReleaser
// configuration of the tree. It returns what that says and release.yaml does
// not.
func (p *Project) Convert(tree fs.FS) ([]LeftOut, error) {
	// In the order in which GoReleaser looks for them.
	for _, name := range []string{".config/goreleaser.yml", ".config/goreleaser.yaml", ".goreleaser.yml", ".goreleaser.yaml", "goreleaser.yml", "goreleaser.yaml"} {
		if _, err := fs.Stat(tree, name); err != nil {
			continue
		}
		raw, err := read(tree, name)
		if err != nil {
			return nil, err
		}
		var top map[string]any
		if err := yaml.Unmarshal(raw, &top); err != nil || len(top) == 0 {
			return nil, verdict.Refuse(verdict.ConfigParse, name, "not a configuration of GoReleaser: %v", err).
				Advise("correct the file; goreleaser check names the line")
		}
		c := &conversion{Project: p, tree: tree, ids: map[string][]string{}}
		c.all(&section{c: c, of: top, used: map[string]bool{"version": true}})
		if len(p.Programs) == 0 {
			return nil, verdict.Refuse(verdict.Usage, name, "none of its builds makes a Go program that can be carried over").
				Advise("write release.yaml with waybill init, without --from")
		}
		return c.left, nil
	}
	return nil, verdict.Refuse(verdict.Usage, ".goreleaser.yaml", "no such file here").Advise("leave --from out, or name the directory of the file with --dir")
}

func (c *conversion) leave(key, format string, args ...any) {
	if one := (LeftOut{key, fmt.Sprintf(format, args...)}); !slices.Contains(c.left, one) {
		c.left = append(c.left, one)
	}
}

// all reads the sections in their order.
func (c *conversion) all(top *section) {
	if name := top.text("project_name"); name != "" {
		c.Name = plainName(name)
	}
	if github := top.section("release").section("github"); github.text("owner") != "" && github.text("name") != "" {
		at := github.text("owner") + "/" + github.text("name")
		c.Repository, c.Place = "https://github.com/"+at, "github://"+at+"/{version}/"
	}
	top.section("release").rest()
	c.Programs, c.Archives = nil, nil
	for _, s := range top.sections("builds") {
		c.build(s)
		s.rest()
	}
	for _, s := range top.sections("archives") {
		c.archive(s)
		s.rest()
	}
	sums := top.section("checksum")
	if algorithm := cmp.Or(sums.text("algorithm"), "sha256"); algorithm != "sha256" && algorithm != "sha512" {
		c.leave(sums.key+".algorithm", "%s: SHA256SUMS and SHA512SUMS list every file", algorithm)
	} else if sums.flag("split") {
		c.Sidecars = []string{algorithm}
	}
	sums.rest()
	top.used["docker_manifests"] = true // an image of several platforms is one anyway
	for _, key := range []string{"dockers", "dockers_v2", "kos"} {
		for _, s := range top.sections(key) {
			c.image(s, key)
			s.rest()
		}
	}
	top.rest()
}

// build takes over one program.
func (c *conversion) build(s *section) {
	dir, main := path.Clean(s.text("dir")), cmp.Or(s.text("main"), ".")
	if path.Ext(main) == ".go" {
		main = path.Dir(main)
	}
	name := plainName(path.Base(cmp.Or(s.text("binary"), c.Name)))
	id := cmp.Or(s.text("id"), c.Name)
	if kind := cmp.Or(s.text("builder"), "go"); kind != "go" || s.flag("skip") || strings.HasPrefix(main, "../") {
		c.leave(s.key, "the build %q is skipped, not of Go, or outside of the source", id)
		s.used = nil
		return
	}
	one := Program{Name: name, Package: packageOf(path.Clean(main)), Env: map[string]string{}, LDFlags: c.ldflags(s), Tags: s.list("tags"), Platforms: c.targets(s)}
	if dir != "." {
		one.Dir = dir
	}
	for _, e := range s.list("env") {
		key, value, _ := strings.Cut(e, "=")
		switch text, ok := translate(value, c.Name); {
		case key == "CGO_ENABLED":
			one.Cgo = value == "1"
		case !ok:
			c.leave(s.key+".env", "%s: %q has a template without equal in release.yaml", key, value)
		default:
			one.Env[key] = text
		}
	}
	for key, variable := range map[string]string{"goarm": "GOARM", "goamd64": "GOAMD64", "goarm64": "GOARM64", "go386": "GO386"} {
		if values := s.list(key); len(values) == 1 {
			one.Env[variable] = values[0]
		} else if len(values) > 1 {
			c.leave(s.key+"."+key, "one program for each os/arch; Go's default is used")
		}
	}
	for _, f := range s.list("flags") {
		if f != "-trimpath" { // always given
			c.leave(s.key+".flags", "%s: write the step with run instead of go", f)
		}
	}
	s.used["mod_timestamp"] = true // outputs have a fixed time
	c.Programs = append(c.Programs, one)
	c.ids[id] = append(c.ids[id], name)
}

// ldflags joins the linker flags, and leaves out those whose value a build
// here does not know.
func (c *conversion) ldflags(s *section) string {
	given := s.list("ldflags")
	if given == nil {
		given = []string{"-s -w -X main.version={{.Version}} -X main.commit={{.Commit}}"}
	}
	var flags []string
	for _, line := range given {
		for _, part := range strings.Split(" "+templated().ReplaceAllStringFunc(line, func(t string) string { return strings.ReplaceAll(t, " ", "") }), " -") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			text, ok := translate("-"+part, c.Name)
			if !ok {
				c.leave(s.key+".ldflags", "-%s: a build here does not know this value, because two builds of a commit give the same bytes", part)
				continue
			}
			flags = append(flags, text)
		}
	}
	return strings.Join(flags, " ")
}

// targets are the platforms of a build.
func (c *conversion) targets(s *section) (list []string) {
	ignored := map[string]bool{}
	for _, i := range s.sections("ignore") {
		ignored[i.text("goos")+"/"+i.text("goarch")] = true
		i.used["goarm"] = true
	}
	for _, t := range s.list("targets") {
		if parts := strings.Split(t, "_"); len(parts) > 1 && !strings.HasPrefix(t, "go_") {
			list = append(list, parts[0]+"/"+parts[1])
		} else {
			c.leave(s.key+".targets", "%s: name the platforms", t)
		}
	}
	systems, machines := s.list("goos"), s.list("goarch")
	if list != nil {
		systems = nil
	} else if systems == nil {
		systems = []string{"linux", "darwin", "windows"}
	}
	if machines == nil {
		machines = []string{"amd64", "arm64", "386"}
	}
	if n := len(list) + len(systems)*len(machines); n > maxPlatforms {
		c.leave(s.key, "%d platforms, more than %d", n, maxPlatforms)
		return nil
	}
	for _, system := range systems {
		for _, machine := range machines {
			if !ignored[system+"/"+machine] && !ignored[system+"/"] && !ignored["/"+machine] && exists(system, machine) {
				list = append(list, system+"/"+machine)
			}
		}
	}
	return slices.Compact(list)
}

// exists reports whether Go compiles for a platform, as far as GoReleaser
// leaves out others silently.
func exists(system, machine string) bool {
	only := map[string][]string{"darwin": {"amd64", "arm64"}, "windows": {"amd64", "arm64", "386"}}[system]
	return only == nil || slices.Contains(only, machine)
}

// archive takes over one kind of archive. Platforms with the same programs and
// format make one list.
func (c *conversion) archive(s *section) {
	ids := append(s.list("ids"), s.list("builds")...)
	formats := append(s.list("formats"), s.list("format")...)
	if len(formats) == 0 {
		formats = []string{"tar.gz"}
	}
	override := map[string][]string{}
	for _, o := range s.sections("format_overrides") {
		override[o.text("goos")] = append(o.list("formats"), o.list("format")...)
	}
	name, ok := translate(cmp.Or(s.text("name_template"), "{{.ProjectName}}_{{.Version}}_{{.Os}}_{{.Arch}}"), c.Name)
	if !ok {
		c.leave(s.key+".name_template", "it has a template without equal in release.yaml; archives get their usual names")
		name = c.Name + "_{version.number}_{os}_{arch}"
	}
	if !s.flag("wrap_in_directory") {
		c.leave(s.key+".wrap_in_directory", "archives have one top directory, %s", c.Name)
	}
	add := c.files(s)
	s.used["id"] = true
	var all []string
	for _, p := range c.Programs {
		all = append(all, slices.DeleteFunc(slices.Clone(p.Platforms), func(platform string) bool { return slices.Contains(all, platform) })...)
	}
	var made []Archive
	for _, platform := range all {
		var take []string
		for _, p := range c.Programs {
			if slices.Contains(p.Platforms, platform) && (len(ids) == 0 || slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(c.ids[id], p.Name) })) {
				take = append(take, p.Name)
			}
		}
		system, _, _ := strings.Cut(platform, "/")
		use := formats
		if o := override[system]; o != nil {
			use = o
		}
		for _, format := range use {
			format, ok := c.format(s, format)
			if !ok || len(take) == 0 {
				continue
			}
			i := slices.IndexFunc(made, func(a Archive) bool { return a.Format == format && slices.Equal(a.Take, take) })
			if i < 0 {
				made, i = append(made, Archive{Name: name, Format: format, Add: add, Take: take}), len(made)
			}
			made[i].Platforms = append(made[i].Platforms, platform)
		}
	}
	c.Archives = append(c.Archives, made...)
}

// format is a format of archives as release.yaml names it.
func (c *conversion) format(s *section, format string) (string, bool) {
	switch format {
	case "tar.gz", "zip":
		return format, true
	case "tgz":
		return "tar.gz", true
	case "binary", "none": // programs are published by themselves anyway
		return "", false
	}
	c.leave(s.key+".formats", "%s: want tar.gz or zip; tar.gz is made", format)
	return "tar.gz", true
}

// files are the files of the source in an archive.
func (c *conversion) files(s *section) (list []string) {
	patterns := []string{"LICENSE*", "README*", "CHANGELOG*", "license*", "readme*", "changelog*"}
	if given, is := s.of["files"].([]any); is {
		s.used["files"], patterns = true, nil
		for _, g := range given {
			if m, is := g.(map[string]any); is {
				c.leave(s.key+".files", "%v: files keep their names and owners; only src is taken", m)
				g = m["src"]
			}
			patterns = append(patterns, fmt.Sprint(g))
		}
	}
	for _, pattern := range patterns {
		found, err := fs.Glob(c.tree, path.Clean(strings.TrimSuffix(pattern, "/**/*")))
		if err != nil || len(found) == 0 && s.of["files"] != nil && pattern != "none*" {
			c.leave(s.key+".files", "%s: no such file in the source", pattern)
		}
		list = append(list, found...)
	}
	return slice.Unique(list)
}

// templated matches one template of GoReleaser.
var templated = pattern.Lazy(`\{\{-?\s*[^{}]*?\s*-?\}\}`)

// translate writes templates of GoReleaser as those of release.yaml; false if
// one has no equal.
func translate(text, name string) (string, bool) {
	equal := map[string]string{
		".Version": "{version.number}", ".Tag": "{version}", ".ProjectName": name, ".Os": "{os}", ".Arch": "{arch}", ".Major": "{major}", ".Minor": "{minor}",
		".Patch": "{patch}", ".Commit": "{commit.id}", ".FullCommit": "{commit.id}", ".CommitTimestamp": "{commit.time}",
	}
	ok := true
	out := templated().ReplaceAllStringFunc(text, func(t string) string {
		is, found := equal[strings.Trim(t, "{}- ")]
		ok = ok && found
		return is
	})
	return out, ok && !strings.Contains(out, "{{")
}
