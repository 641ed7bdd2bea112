package draft

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/waybill-release/waybill/pkg/tool/slice"
)

// image takes over an image of dockers, dockers_v2 or kos.
func (c *conversion) image(s *section, kind string) {
	for _, key := range []string{"id", "ids", "use", "tags", "skip_push", "build_flag_templates", "flags", "labels", "annotations", "sbom", "disable"} {
		s.used[key] = true // tags and evidence are those of the release; labels are written anyway
	}
	one, address, why := Image{}, "", ""
	if kind == "kos" {
		one, address, why = c.ko(s)
	} else {
		one, address, why = c.docker(s, kind)
	}
	if why == "" {
		address, one.Name = path.Dir(address), path.Base(address)
		if c.Registry != "" && c.Registry != address {
			why = fmt.Sprintf("all images have one registry, %s", c.Registry)
		}
	}
	if why != "" {
		c.leave(s.key, "%s", why)
		s.used = nil
		return
	}
	c.Registry = address
	if i := slices.IndexFunc(c.Images, func(i Image) bool { return i.Name == one.Name }); i >= 0 { // for another platform
		c.Images[i].Platforms = slice.Unique(append(c.Images[i].Platforms, one.Platforms...))
		return
	}
	c.Images = append(c.Images, one)
}

// ko is the image that ko would make: one program on a base.
func (c *conversion) ko(s *section) (one Image, address, why string) {
	names := c.ids[cmp.Or(s.text("build"), c.Name)]
	if len(names) != 1 {
		return one, "", "its build was not carried over"
	}
	at := append(s.list("repositories"), s.list("repository")...)
	if len(at) != 1 || strings.Contains(at[0], "{{") {
		return one, "", "want one repository, without a template"
	}
	if address = at[0]; !s.flag("bare") {
		address += "/" + names[0]
	}
	s.used["base_import_paths"], s.used["preserve_import_paths"] = true, true
	one.base(cmp.Or(s.text("base_image"), "cgr.dev/chainguard/static"))
	one.Platforms = s.list("platforms")
	if one.Platforms == nil {
		one.Platforms = []string{"linux/amd64"}
	}
	program := "/ko-app/" + names[0]
	one.Files, one.Entrypoint = map[string]string{program: "bin/{os}/{arch}/" + names[0]}, []string{program}
	return one, address, ""
}

// docker is an image whose Dockerfile only copies programs onto a base.
func (c *conversion) docker(s *section, kind string) (one Image, address, why string) {
	key := map[string]string{"dockers": "image_templates", "dockers_v2": "images"}[kind]
	addresses := s.list(key)
	if len(addresses) == 0 {
		return one, "", "it names no image"
	}
	one.Platforms = s.list("platforms")
	if kind == "dockers" {
		one.Platforms = []string{cmp.Or(s.text("goos"), "linux") + "/" + cmp.Or(s.text("goarch"), "amd64")}
	} else if one.Platforms == nil {
		one.Platforms = []string{"linux/amd64", "linux/arm64"}
	}
	address = addresses[0]
	if i := strings.LastIndexByte(address, ':'); i > strings.LastIndexByte(address, '/') && !strings.Contains(address[:i], "{{") {
		address = address[:i]
	}
	address, ok := translate(address, c.Name)
	if !ok || !strings.Contains(address, "/") || strings.Contains(address, "{") {
		return one, "", fmt.Sprintf("%q: want HOST/REPOSITORY", addresses[0])
	}
	for _, more := range addresses[1:] {
		if !strings.HasPrefix(more, address+":") {
			c.leave(s.key+"."+key, "%s: an image is published at one address", more)
		}
	}
	name := cmp.Or(s.text("dockerfile"), "Dockerfile")
	raw, err := read(c.tree, path.Clean(name))
	if err != nil {
		return one, "", err.Error()
	}
	return one, address, c.dockerfile(&one, name, string(raw))
}

// dockerfile reads the few instructions that have an equal.
func (c *conversion) dockerfile(one *Image, name, text string) (why string) {
	one.Files = map[string]string{}
	for n, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		rest := words[1:]
		refused := fmt.Sprintf("%s:%d: %s has no equal: an image is made of a base, copied programs, an entrypoint and a user", name, n+1, strings.TrimSpace(line))
		switch verb := strings.ToUpper(words[0]); {
		case verb == "FROM" && len(rest) == 1 && one.Base == "" && !strings.Contains(rest[0], "$"):
			one.base(rest[0])
		case verb == "ARG", verb == "LABEL", verb == "EXPOSE":
			c.leave(name, "line %d: %s is not carried over", n+1, verb)
		case verb == "COPY" && len(rest) == 2 && slices.ContainsFunc(c.Programs, func(p Program) bool { return p.Name == path.Base(rest[0]) }):
			to := rest[1]
			if strings.HasSuffix(to, "/") {
				to += path.Base(rest[0])
			}
			one.Files[path.Join("/", to)] = "bin/{os}/{arch}/" + path.Base(rest[0])
		case verb == "ENTRYPOINT" && json.Unmarshal([]byte(strings.TrimSpace(line)[len(words[0]):]), &one.Entrypoint) == nil:
		case verb == "USER" && len(rest) == 1 && !strings.ContainsFunc(rest[0], unicode.IsLetter):
			one.User = rest[0]
			if !strings.Contains(one.User, ":") {
				one.User += ":" + one.User
			}
		default:
			return refused
		}
	}
	if one.Base == "" || len(one.Files) == 0 || len(one.Entrypoint) == 0 {
		return name + ": want FROM, a COPY of a program, and an ENTRYPOINT as a list"
	}
	return ""
}

// base names the base of an image.
func (i *Image) base(from string) {
	if from == "scratch" {
		i.Base = from
		return
	}
	last, _, _ := strings.Cut(path.Base(from), "@")
	last, _, _ = strings.Cut(last, ":")
	i.Base, i.From = plainName(last), from
}
