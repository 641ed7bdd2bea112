package gomod

import (
	"fmt"
	"path"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// maxDisagreements is how many differences between copies and source are named;
// the rest is counted.
const maxDisagreements = 20

// states compares a vendor/modules.txt with its go.mod, or with the files of
// its workspace, by the rules by which the go command refuses inconsistent
// vendoring: modules.txt marks each requirement as explicit, each replacement
// as one, and nothing else.
type states struct {
	copied  vendored
	asks    []*modfile.File
	all     []replacements // the first match wins
	members map[string]string
	dir     string // base directory of the directories in modules.txt
	work    bool
	found   []string
	more    int
}

// consistent records where vendored copies differ from their module or
// workspace.
func (r *treeReader) consistent(s states) {
	s.required()
	s.replaced()
	s.listed()
	file := path.Join(s.dir, "vendor", "modules.txt")
	for _, reason := range s.found {
		r.fault(file, reason+": the vendored copies do not match the source")
	}
	if s.more > 0 {
		r.fault(file, fmt.Sprintf("%d more differences from the source", s.more))
	}
}

func (s *states) add(format string, args ...any) {
	if len(s.found) == maxDisagreements {
		s.more++
		return
	}
	s.found = append(s.found, fmt.Sprintf(format, args...))
}

// source names the file that requires the modules.
func (s *states) source() string {
	if s.work {
		return "the workspace"
	}
	return "go.mod"
}

// olderThan reports whether the module's Go version predates a part of modules.txt.
func (s *states) olderThan(of string) bool {
	return !s.work && (s.asks[0].Go == nil || before(s.asks[0].Go.Version, of))
}

// required checks that each requirement of a go.mod is listed as such.
func (s *states) required() {
	for _, f := range s.asks {
		for _, want := range f.Require {
			has := s.copied.versions[want.Mod.Path]
			switch {
			case s.copied.marks[want.Mod].explicit || s.members[want.Mod.Path] != "":
			case has != "" && has != want.Mod.Version:
				s.add("lists version %.200q of %.200q, but go.mod requires %.200s", has, want.Mod.Path, want.Mod.Version)
			case !s.olderThan("go1.14"):
				s.add("lacks %.200q %.200s, which go.mod requires", want.Mod.Path, want.Mod.Version)
			}
		}
	}
}

// replaced checks that both have the same replacements.
func (s *states) replaced() {
	declared := map[module.Version]bool{}
	for _, from := range s.all {
		for _, to := range from.list {
			if declared[to.Old] {
				continue
			}
			declared[to.Old] = true
			said, is := s.copied.marks[to.Old].replacement, replacing(to, from.dir)
			switch {
			case said != "" && replacedBy(said, s.dir) != is:
				s.add("replaces %.200q by %.200q, but %s by another", to.Old.Path, said, s.source())
			case said == "" && s.members[to.Old.Path] == "" && !s.olderThan("go1.14"):
				s.add("does not replace %.200q, but %s does", to.Old.Path, s.source())
			}
		}
	}
	for _, mod := range s.copied.order {
		if s.copied.marks[mod].replacement != "" && !declared[mod] && !declared[module.Version{Path: mod.Path}] {
			s.add("replaces %.200q, but %s does not", mod.Path, s.source())
		}
	}
}

// listed checks that modules.txt has nothing that no go.mod requires. Before Go
// 1.17, and in a workspace, go.mod requires only a part of the copied modules:
// then only explicit ones are checked.
func (s *states) listed() {
	asked, paths := map[module.Version]bool{}, map[string]bool{}
	for _, f := range s.asks {
		for _, want := range f.Require {
			asked[want.Mod], paths[want.Mod.Path] = true, true
		}
	}
	all := !s.work && !s.olderThan("go1.17")
	for _, mod := range s.copied.order {
		mark := s.copied.marks[mod]
		if asked[mod] || !s.work && paths[mod.Path] { // a different version was reported by required
			continue
		}
		if mark.explicit || all && mark.packages {
			s.add("lists %.200q %.200s, which %s does not require", mod.Path, mod.Version, s.source())
		}
	}
}

// replacing returns the target of a replacement: a module with its version, or
// a directory relative to the tree.
func replacing(to *modfile.Replace, dir string) string {
	if to.New.Version != "" {
		return to.New.Path + " " + to.New.Version
	}
	return replacedBy(to.New.Path, dir)
}

// replacedBy is [replacing] for a line of modules.txt.
func replacedBy(said, dir string) string {
	if strings.Contains(said, " ") || path.IsAbs(said) {
		return said
	}
	return path.Join(dir, strings.ReplaceAll(said, `\`, "/"))
}
