package plan

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
)

// expander fills templates and keeps the first error, so that expansion reads
// as a list of fields.
type expander struct {
	vars map[string]string
	err  error
}

func (x *expander) all(templates []string) []string {
	var out []string
	for _, t := range templates {
		out = append(out, x.one(t))
	}
	return out
}

// one replaces every {name}; "{{" stands for a brace itself. A name that is
// not known here is an error, not an empty string.
func (x *expander) one(template string) string {
	var b strings.Builder
	rest := template
	for {
		open := strings.IndexByte(rest, '{')
		if open < 0 {
			b.WriteString(rest)
			return b.String()
		}
		b.WriteString(rest[:open])
		if strings.HasPrefix(rest[open:], "{{") {
			b.WriteByte('{')
			rest = rest[open+2:]
			continue
		}
		end := strings.IndexByte(rest[open:], '}')
		if end < 0 {
			x.fail(fmt.Errorf("template %q: no closing brace", template))
			return ""
		}
		name := rest[open+1 : open+end]
		value, known := x.vars[name]
		if !known {
			x.fail(fmt.Errorf("template %q: {%s} means nothing here", template, name))
			return ""
		}
		b.WriteString(value)
		rest = rest[open+end+1:]
	}
}

// files fills the templates of both sides; two that come out as one path
// would leave it to chance which file is there.
func (x *expander) files(templates map[string]string) map[string]string {
	files := make(map[string]string, len(templates))
	for _, t := range slices.Sorted(maps.Keys(templates)) {
		path := x.one(t)
		if _, taken := files[path]; taken {
			x.fail(fmt.Errorf("image.files: two entries are named %q", path))
		}
		files[path] = x.one(templates[t])
	}
	return files
}

func (x *expander) fail(err error) {
	if x.err == nil {
		x.err = err
	}
}

// reserved are the first segments and names that the release itself uses.
var reserved = []string{"oci", "provenance", "image"}

// CheckName refuses a name that no artifact may have: one that could mean two
// places, or the name of the manifest's own bundle, which no list can hold.
func CheckName(name string) error {
	if name == "" || name == "." || len(name) > 512 || path.Clean(name) != name || strings.HasPrefix(name, "/") || strings.HasPrefix(name, "..") {
		return fmt.Errorf("artifact %q: want a clean relative name", name)
	}
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+@~/-") != "" {
		return fmt.Errorf("artifact %q: want only letters, digits and ._+@~-/", name)
	}
	if name == releasemanifest.Name {
		return fmt.Errorf("artifact %q: the name belongs to the manifest's own bundle", name)
	}
	return nil
}

func checkArtifactName(a Artifact) error {
	if err := CheckName(a.Name); err != nil {
		return err
	}
	if a.IsImage() && strings.Trim(a.Repository, "abcdefghijklmnopqrstuvwxyz0123456789._/-") != "" {
		return fmt.Errorf("artifact %q: repositories have only lower-case letters, digits and ._-/", a.Name)
	}
	if a.Step == "" || a.IsImage() || a.Class == Provenance {
		return nil
	}
	first, _, _ := strings.Cut(a.Name, "/")
	for _, r := range reserved {
		if first == r {
			return fmt.Errorf("artifact %q: names under %s/ belong to the release itself", a.Name, r)
		}
	}
	return nil
}
