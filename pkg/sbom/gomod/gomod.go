// Package gomod lists the Go modules of a program or a source tree.
//
// [Read] takes it from a program: the Go linker leaves the list of modules in
// every binary. [ReadTree] takes it from sources: go.mod, go.sum, go.work and
// vendor/modules.txt. Neither runs a tool or uses the network.
//
//	bin, err := gomod.Read(file)
//	for _, m := range bin.Deps { … m.Path, m.Version, m.Sum … }
//
// Other projects should not import this package: it changes without notice.
package gomod

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/mod/module"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxModules bounds the modules of one program or tree.
const maxModules = 100_000

// Module is one module as it was built.
type Module struct {
	// Path and Version name it; the version is "" if there is none, such as for
	// the main module of an unversioned build.
	Path, Version string
	// Sum is its checksum in the form of go.sum, "h1:…", or "".
	Sum string
	// Replaces is "path version" of the module that this one replaces, or "".
	Replaces string
	// Dir is the directory that a replacement names, as written, if no module
	// of the tree is there; or "".
	Dir string
	// Local is the directory of this module in the tree, "." for the root, or
	// "" if it is not in the tree.
	Local string
	// Asked is the version that go.mod requires, if a workspace selects a
	// higher one; or "".
	Asked string
}

// PURL returns the package URL of the module, "" for a directory, which others
// cannot look up. The version keeps its "v"; each segment is escaped.
func (m Module) PURL() string {
	if m.Path == "" || m.Dir != "" {
		return ""
	}
	return PURL(m.Path, m.Version)
}

// PURL returns a package URL of type golang.
func PURL(path, version string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	purl := "pkg:golang/" + strings.Join(segments, "/")
	if version == "" {
		return purl
	}
	return purl + "@" + url.QueryEscape(version)
}

// IsModule reports whether a path, and a version if there is one, can name a
// published module: example.org/m/v2 has no version v1.0.0.
func IsModule(path, version string) bool {
	if version == "" {
		return module.CheckPath(path) == nil
	}
	return module.Check(path, version) == nil && module.CanonicalVersion(version) == version
}

// Binary is the build information of a program.
type Binary struct {
	// Package is the path of the main package.
	Package string
	// Main is the main module; its path is "" if the program was built outside
	// of a module.
	Main Module
	// Deps are the other modules, by path and version, each once.
	Deps []Module
	// GoVersion is the toolchain, "go1.26.0" and perhaps experiments.
	GoVersion string
	// Settings are the settings of the build, "KEY=VALUE", sorted.
	Settings []string
	// System, Revision, Time and Modified describe the version control state;
	// "" if the program was built without.
	System, Revision, Time, Modified string
}

// ErrNoBuildInfo says that a file is not a Go program, or that its build
// information was removed.
var ErrNoBuildInfo = errors.New("no Go build information")

// Read reads the build information of the Go linker. Anything but a Go program
// is [ErrNoBuildInfo], with the reason. The standard library's parsers of
// executables are not made for hostile input: if one panics, the file counts as
// having no build information.
func Read(r io.ReaderAt) (b Binary, err error) {
	defer func() {
		if p := recover(); p != nil {
			b, err = Binary{}, fmt.Errorf("%w: parsing the executable: %.200q", ErrNoBuildInfo, fmt.Sprint(p))
		}
	}()
	info, err := buildinfo.Read(r)
	if err != nil {
		return Binary{}, fmt.Errorf("%w: %v", ErrNoBuildInfo, err)
	}
	if len(info.Deps) > maxModules {
		return Binary{}, verdict.Refuse(verdict.Limit, "", "%d modules, the limit is %d", len(info.Deps), maxModules)
	}
	return binary(info), nil
}

func binary(info *debug.BuildInfo) Binary {
	b := Binary{Package: info.Path, GoVersion: info.GoVersion, Main: built(info.Main)}
	for _, d := range info.Deps {
		if d != nil && d.Path != "" {
			b.Deps = append(b.Deps, built(*d))
		}
	}
	b.Deps = sorted(b.Deps)
	for _, s := range info.Settings {
		b.Settings = append(b.Settings, s.Key+"="+s.Value)
		switch s.Key {
		case "vcs":
			b.System = s.Value
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value
		}
	}
	slices.Sort(b.Settings)
	return b
}

// built returns the module that was compiled: for a replaced one, the
// replacement.
func built(m debug.Module) Module {
	if m.Replace == nil {
		return Module{Path: m.Path, Version: released(m.Version), Sum: m.Sum}
	}
	out := Module{
		Path: m.Replace.Path, Version: released(m.Replace.Version), Sum: m.Replace.Sum,
		Replaces: strings.TrimSpace(m.Path + " " + m.Version),
	}
	if isDir(out.Path) {
		out.Dir = out.Path
	}
	return out
}

// released returns the version, or "" if the toolchain knew none.
func released(version string) string {
	if version == "(devel)" {
		return ""
	}
	return version
}

func isDir(path string) bool {
	return path == "." || path == ".." || strings.HasPrefix(path, "./") || strings.HasPrefix(path, "../") ||
		strings.HasPrefix(path, "/") || strings.Contains(path, `\`)
}

// sorted sorts by path and version, and drops duplicates.
func sorted(list []Module) []Module {
	slices.SortFunc(list, func(x, y Module) int {
		return cmp.Or(
			strings.Compare(x.Path, y.Path), strings.Compare(x.Version, y.Version),
			strings.Compare(x.Replaces, y.Replaces), strings.Compare(x.Sum, y.Sum), strings.Compare(x.Local, y.Local), strings.Compare(x.Asked, y.Asked))
	})
	return slices.Compact(list)
}

// IsGo reports whether an executable has a mark of the Go linker, such as a
// build id or the name of a runtime function. A truncated or overwritten
// program still has some of them.
func IsGo(r io.ReaderAt) bool {
	marks := [][]byte{
		[]byte("\xff Go build"), []byte("gopclntab"), []byte("runtime.morestack"),
		[]byte("\x04\x00\x00\x00Go\x00\x00"), []byte("\x00\x00\x00\x04Go\x00\x00"), // the note of ELF
	}
	const overlap = 32 // no mark is longer
	buf := make([]byte, 256<<10)
	for at := int64(0); ; at += int64(len(buf) - overlap) {
		n, err := r.ReadAt(buf, at)
		for _, mark := range marks {
			if bytes.Contains(buf[:n], mark) {
				return true
			}
		}
		if err != nil || n < len(buf) {
			return false
		}
	}
}
