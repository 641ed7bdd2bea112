package gomod

import (
	"fmt"
	"path"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// maxDisagreements is how many places are named in which copies are of another
// state than the source; the rest is counted.
const maxDisagreements = 20

// states compares a vendor/modules.txt with the go.mod, or with the files of a
// workspace, that it is of. The rules are those by which the go command refuses
// to build from copies: of each requirement it says that it is explicit, of each
// replacement that it is one, and it says neither of anything else.
type states struct {
	copied  vendored
	asks    []*modfile.File
	all     []replacements // the first that fits wins
	members map[string]string
	dir     string // from which modules.txt names directories
	work    bool
	found   []string
	more    int
}

// consistent notes where the copies of a module, or of a workspace, are of
// another state than it.
func (r *treeReader) consistent(s states) {
	s.required()
	s.replaced()
	s.listed()
	file := path.Join(s.dir, "vendor", "modules.txt")
	for _, reason := range s.found {
		r.fault(file, reason+": they are of two states of the source")
	}
	if s.more > 0 {
		r.fault(file, fmt.Sprintf("%d places more in which it is of another state of the source", s.more))
	}
}

func (s *states) add(format string, args ...any) {
	if len(s.found) == maxDisagreements {
		s.more++
		return
	}
	s.found = append(s.found, fmt.Sprintf(format, args...))
}

// source names what asks for modules.
func (s *states) source() string {
	if s.work {
		return "the workspace"
	}
	return "go.mod"
}

// old reports whether the module is of a Go that did not yet say in modules.txt
// what go.mod asks for.
func (s *states) old(of string) bool {
	return !s.work && (s.asks[0].Go == nil || before(s.asks[0].Go.Version, of))
}

// required: what a go.mod asks for is there, as that.
func (s *states) required() {
	for _, f := range s.asks {
		for _, want := range f.Require {
			has := s.copied.versions[want.Mod.Path]
			switch {
			case s.copied.marks[want.Mod].explicit || s.members[want.Mod.Path] != "":
			case has != "" && has != want.Mod.Version:
				s.add("it has %.200q of %.200q, and go.mod asks for %.200s", has, want.Mod.Path, want.Mod.Version)
			case !s.old("go1.14"):
				s.add("it does not have %.200q %.200s, and go.mod asks for it", want.Mod.Path, want.Mod.Version)
			}
		}
	}
}

// replaced: what is replaced is so in both, and by the same.
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
				s.add("it has %.200q replaced by %.200q, and %s by another", to.Old.Path, said, s.source())
			case said == "" && s.members[to.Old.Path] == "" && !s.old("go1.14"):
				s.add("it does not have %.200q replaced, and %s does", to.Old.Path, s.source())
			}
		}
	}
	for _, mod := range s.copied.order {
		if s.copied.marks[mod].replacement != "" && !declared[mod] && !declared[module.Version{Path: mod.Path}] {
			s.add("it has %.200q replaced, and %s has not", mod.Path, s.source())
		}
	}
}

// listed: it has nothing that no go.mod asks for. Before Go 1.17, and in a
// workspace, go.mod asks for a part of what is copied: then nothing explicit.
func (s *states) listed() {
	asked, paths := map[module.Version]bool{}, map[string]bool{}
	for _, f := range s.asks {
		for _, want := range f.Require {
			asked[want.Mod], paths[want.Mod.Path] = true, true
		}
	}
	all := !s.work && !s.old("go1.17")
	for _, mod := range s.copied.order {
		mark := s.copied.marks[mod]
		if asked[mod] || !s.work && paths[mod.Path] { // the other version was said above
			continue
		}
		if mark.explicit || all && mark.packages {
			s.add("it has %.200q %.200s, which %s does not ask for", mod.Path, mod.Version, s.source())
		}
	}
}

// replacing is what a replacement comes to: a module with its version, or a
// directory as the tree names it.
func replacing(to *modfile.Replace, dir string) string {
	if to.New.Version != "" {
		return to.New.Path + " " + to.New.Version
	}
	return replacedBy(to.New.Path, dir)
}

// replacedBy is [replacing] of a line of modules.txt.
func replacedBy(said, dir string) string {
	if strings.Contains(said, " ") || path.IsAbs(said) {
		return said
	}
	return path.Join(dir, strings.ReplaceAll(said, `\`, "/"))
}
