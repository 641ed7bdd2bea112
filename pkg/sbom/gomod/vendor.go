package gomod

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// vendored is the content of a vendor/modules.txt.
type vendored struct {
	list      []Module // nil if there is no such file
	workspace bool     // written by go work vendor
	order     []module.Version
	marks     map[module.Version]mark
	versions  map[string]string // modules of which packages are listed
}

// mark is the entry of one module.
type mark struct {
	explicit, packages bool
	replacement        string // "path version", or a directory
}

// vendored reads the list of vendored modules: those of which it lists
// packages. The others are required but not copied, or unused replacements.
func (r *treeReader) vendored(dir string) (vendored, error) {
	name := path.Join(dir, "modules.txt")
	raw, err := r.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return vendored{}, nil
	}
	if err != nil {
		return vendored{}, err
	}
	v := vendored{list: []Module{}, marks: map[module.Version]mark{}, versions: map[string]string{}}
	var current Module
	var mod module.Version
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "## workspace":
			v.workspace = true
		case strings.HasPrefix(line, "## "):
			v.annotate(mod, line[3:])
		case line == "":
		case strings.HasPrefix(line, "# "):
			if len(v.order) == maxModules {
				return vendored{}, verdict.Refuse(verdict.Limit, name, "more than %d modules", maxModules)
			}
			current = copiedModule(line[2:])
			mod = v.begin(current)
		case current.Path != "":
			v.list = append(v.list, current)
			v.packaged(mod)
			current = Module{}
		}
	}
	v.list = sorted(v.list)
	return v, nil
}

// begin parses the line of one module, of which there may be several.
func (v *vendored) begin(m Module) module.Version {
	mod := module.Version{Path: m.Path, Version: m.Version}
	if m.Replaces != "" {
		mod.Path, mod.Version, _ = strings.Cut(m.Replaces, " ")
	}
	is, known := v.marks[mod]
	if !known {
		v.order = append(v.order, mod)
	}
	if m.Replaces != "" {
		is.replacement = strings.TrimSpace(m.Path + " " + m.Version)
	}
	v.marks[mod] = is
	return mod
}

func (v *vendored) annotate(mod module.Version, notes string) {
	is := v.marks[mod]
	for note := range strings.SplitSeq(notes, ";") {
		is.explicit = is.explicit || strings.TrimSpace(note) == "explicit"
	}
	v.marks[mod] = is
}

// packaged records that packages of a module are listed.
func (v *vendored) packaged(mod module.Version) {
	is := v.marks[mod]
	is.packages = true
	v.marks[mod] = is
	if was := v.versions[mod.Path]; was == "" || semver.Compare(was, mod.Version) < 0 {
		v.versions[mod.Path] = mod.Version
	}
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

// VendorDir is the directory of a vendored module, below the vendor directory.
func (m Module) VendorDir(vendor string) string { return path.Join(vendor, m.asked()) }

// Sums are checksums by "path version".
type Sums map[string]string

// ParseSums parses go.sum. Lines for go.mod files are skipped; two checksums
// for one module are refused.
func ParseSums(raw []byte) (Sums, error) {
	sums := Sums{}
	n := 0
	for line := range strings.Lines(string(raw)) {
		n++
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 3 {
			return nil, &parseError{"go.sum", fmt.Errorf("line %d has %d fields, want 3", n, len(fields))}
		}
		if strings.HasSuffix(fields[1], "/go.mod") {
			continue
		}
		key := fields[0] + " " + fields[1]
		if was, there := sums[key]; there && was != fields[2] {
			return nil, &parseError{"go.sum", fmt.Errorf("line %d: two checksums of %s", n, key)}
		}
		sums[key] = fields[2]
	}
	return sums, nil
}

// sums reads a go.sum of the tree. One that does not parse is recorded as a
// fault and ignored.
func (r *treeReader) sums(name string) (Sums, error) {
	raw, err := r.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Sums{}, nil
	}
	if err != nil {
		return nil, err
	}
	sums, err := ParseSums(raw)
	if bad, is := errors.AsType[*parseError](err); is {
		r.unparsed(name, bad.err)
		return Sums{}, nil
	}
	return sums, err
}

func withSums(list []Module, sums Sums) []Module {
	for i, m := range list {
		if m.Dir == "" && m.Local == "" {
			list[i].Sum = sums[m.Path+" "+m.Version]
		}
	}
	return list
}
