package gomod

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"github.com/waybill-release/waybill/pkg/tool/slice"
)

// workspace is one go.work with its modules.
type workspace struct {
	dir      string
	members  []string          // directories, sorted
	paths    map[string]string // directories by module path
	highest  map[string]string // the selected version of each module
	replaces []replacements    // those of go.work first, which win
	sums     Sums
	vendored vendored
	used     map[Module]bool // vendored modules that a member requires
}

func (w *workspace) file() string { return path.Join(w.dir, "go.work") }

// workspace reads one go.work.
func (r *treeReader) workspace(dir string) error {
	w := &workspace{
		dir: dir, paths: map[string]string{}, highest: map[string]string{}, sums: Sums{}, used: map[Module]bool{},
	}
	raw, err := r.read(w.file())
	if err != nil {
		return err
	}
	f, err := modfile.ParseWork(w.file(), raw, nil)
	if err != nil {
		r.unparsed(w.file(), err)
		return nil
	}
	w.replaces = []replacements{{f.Replace, dir}}
	for _, u := range f.Use {
		at := path.Join(dir, u.Path)
		if r.files[at] == nil || path.IsAbs(u.Path) {
			r.fault(w.file(), fmt.Sprintf("uses %.200q, but the tree has no module there", u.Path))
			continue
		}
		w.members = append(w.members, at)
	}
	slices.Sort(w.members)
	if err := r.join(w, w.file()+".sum"); err != nil {
		return err
	}
	for _, at := range w.members {
		if err := r.member(w, at); err != nil {
			return err
		}
	}
	all, err := r.vendored(path.Join(dir, "vendor"))
	if err != nil {
		return err
	}
	if !all.workspace && all.list != nil && r.files[dir] == nil {
		r.fault(path.Join(dir, "vendor", "modules.txt"), "not marked as written for the workspace, and there is no module it could belong to")
	}
	if all.workspace {
		r.consistent(w.states(r, all))
		all.list = withSums(r.located(all.list, dir), w.sums)
		w.vendored = all
	}
	r.works[dir] = w
	return nil
}

// states returns what the copies of the workspace are compared with.
func (w *workspace) states(r *treeReader, copied vendored) states {
	asks := slice.Map(w.members, func(at string) *modfile.File { return r.files[at] })
	return states{copied: copied, all: w.replaces, members: w.paths, dir: w.dir, work: true, asks: asks}
}

func (r *treeReader) member(w *workspace, at string) error {
	f := r.files[at]
	w.paths[f.Module.Mod.Path] = at
	w.replaces = append(w.replaces, replacements{f.Replace, at})
	for _, v := range f.Require {
		if was := w.highest[v.Mod.Path]; was == "" || semver.Compare(v.Mod.Version, was) > 0 {
			w.highest[v.Mod.Path] = v.Mod.Version
		}
	}
	return r.join(w, path.Join(at, "go.sum"))
}

// join adds the checksums of one file.
func (r *treeReader) join(w *workspace, name string) error {
	sums, err := r.sums(name)
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		if was, there := w.sums[key]; there && was != sums[key] {
			r.fault(name, fmt.Sprintf("another module of the workspace has a different checksum for %.200q", key))
			continue
		}
		w.sums[key] = sums[key]
	}
	return err
}

// workOf returns the workspace that the go command finds for a directory, if it
// uses the module there.
func (r *treeReader) workOf(dir string) *workspace {
	for at := dir; ; at = path.Dir(at) {
		w := r.works[at]
		switch {
		case w != nil && slices.Contains(w.members, dir):
			return w
		case w != nil || at == "." || at == "/":
			return nil
		}
	}
}

// chosen returns the module that a requirement resolves to in the workspace.
func (w *workspace) chosen(r *treeReader, v module.Version, own replacements) Module {
	if at, member := w.paths[v.Path]; member {
		return Module{Path: v.Path, Local: at}
	}
	top := module.Version{Path: v.Path, Version: w.highest[v.Path]}
	// Those of go.work win, then those of the module itself.
	m := r.replace(top, append([]replacements{w.replaces[0], own}, w.replaces[1:]...)...)
	if top.Version != v.Version && m.Local == "" && m.Dir == "" {
		m.Asked = v.Version
	}
	return m
}

// selected returns the modules that a member's requirements resolve to.
func (w *workspace) selected(r *treeReader, dir string, f *modfile.File) []Module {
	return sorted(withSums(slice.Map(f.Require, func(v *modfile.Require) Module { return w.chosen(r, v.Mod, replacements{f.Replace, dir}) }), w.sums))
}

// copied returns those of a member's requirements that were vendored, and those
// that are in the workspace itself.
func (w *workspace) copied(r *treeReader, f *modfile.File) (list []Module) {
	for _, v := range f.Require {
		if at, member := w.paths[v.Mod.Path]; member {
			list = append(list, Module{Path: v.Mod.Path, Local: at})
			continue
		}
		for _, m := range w.vendored.list {
			if m.asked() == v.Mod.Path {
				w.used[m] = true
				list = append(list, m)
			}
		}
	}
	return sorted(list)
}

// rest assigns vendored modules that no member requires directly to the first
// member: some module of the workspace needs them.
func (r *treeReader) rest(w *workspace) {
	if len(w.members) == 0 {
		return
	}
	at := slices.IndexFunc(r.out.Modules, func(m SourceModule) bool { return m.Dir == w.members[0] })
	for _, m := range w.vendored.list {
		if !w.used[m] {
			r.out.Modules[at].Deps = append(r.out.Modules[at].Deps, m)
		}
	}
	r.out.Modules[at].Deps = sorted(r.out.Modules[at].Deps)
}
