package gomod

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"github.com/waybill-release/waybill/pkg/verdict"
)

// vendored is what a vendor/modules.txt says.
type vendored struct {
	list      []Module // nil if there is no such file
	workspace bool     // it is of go work vendor
}

// vendored reads the list of a directory that modules were copied to: those of
// which it names packages. The others are required and not copied, or
// replacements that nothing uses.
func (r *treeReader) vendored(dir string) (vendored, error) {
	name := path.Join(dir, "modules.txt")
	raw, err := readFile(r.tree, name)
	if errors.Is(err, fs.ErrNotExist) {
		return vendored{}, nil
	}
	if err != nil {
		return vendored{}, err
	}
	v := vendored{list: []Module{}}
	var current Module
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "## workspace":
			v.workspace = true
		case strings.HasPrefix(line, "## "), line == "":
		case strings.HasPrefix(line, "# "):
			current = copiedModule(line[2:])
		case current.Path != "":
			if len(v.list) == maxModules {
				return vendored{}, verdict.Refuse(verdict.Limit, name, "more than %d modules", maxModules)
			}
			v.list = append(v.list, current)
			current = Module{}
		}
	}
	v.list = sorted(v.list)
	return v, nil
}

// copiedModule reads "path version" or "path version => path [version]".
func copiedModule(line string) Module {
	mod := func(s string) (m Module) {
		m.Path, m.Version, _ = strings.Cut(strings.TrimSpace(s), " ")
		return m
	}
	old, now, replaced := strings.Cut(line, " => ")
	if !replaced {
		return mod(old)
	}
	m := mod(now)
	m.Replaces = strings.TrimSpace(old)
	if m.Version == "" {
		m.Dir = m.Path
	}
	return m
}

// asked is the path by which programs import a module.
func (m Module) asked() string {
	if m.Replaces == "" {
		return m.Path
	}
	name, _, _ := strings.Cut(m.Replaces, " ")
	return name
}

// VendorDir is the directory that a module was copied to, below that of all.
func (m Module) VendorDir(vendor string) string { return path.Join(vendor, m.asked()) }

// disagreement is where go.mod and the copies are of two versions: the go
// command refuses to build that.
func disagreement(f *modfile.File, copied []Module, vendor string) string {
	for _, want := range f.Require {
		i := slices.IndexFunc(copied, func(m Module) bool { return m.asked() == want.Mod.Path })
		if i < 0 {
			continue
		}
		has := copied[i].Version
		if copied[i].Replaces != "" {
			_, has, _ = strings.Cut(copied[i].Replaces, " ")
		}
		if has != want.Mod.Version && has != "" {
			return fmt.Sprintf("%s/modules.txt has %s %s, and go.mod asks for %s: they are of two states of the source",
				vendor, want.Mod.Path, has, want.Mod.Version)
		}
	}
	return ""
}
