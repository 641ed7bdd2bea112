// Package goprogram builds a Go program again from what it says of itself: its
// build information names the toolchain, the modules with their hashes, and most
// settings.
//
//	p, gone := goprogram.Read("crane", "")
//	again, err := p.Build(ctx, sandbox.Isolated, dir)
//
// Build information is no evidence: whoever made the program wrote it. Only known
// settings with plain values are passed on, so none names a file or a program of
// this machine. The go command downloads the modules and compares them with its
// checksum database (else see [Program.Unproven]); the build itself runs in the
// sandbox, without a network.
//
// Other projects should not import this package: it changes without notice.
package goprogram

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/mod/module"

	"github.com/waybill-release/waybill/pkg/produce/run"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// unnamed is the next act if build information does not say enough: the program
// has no provenance that could be repaired.
const unnamed = "build the program yourself from its source, or name its provenance with --bundle; this says nothing about the program"

// Program is what a program says about its build.
type Program struct {
	*debug.BuildInfo
	// Ldflags are the linker's flags. Build information has none with -trimpath.
	Ldflags string
	// Unproven says that the go command built it from modules that it compared with no
	// checksum database, because the settings of this machine leave that out.
	Unproven           bool
	flags, env, debugs []string
}

var (
	// target matches the variables that choose what is built.
	target = pattern.Lazy(`^GO(OS|ARCH|386|AMD64|ARM|ARM64|MIPS|MIPS64|PPC64|RISCV64|WASM|EXPERIMENT|FIPS140)$`)
	plain  = pattern.Lazy(`^[A-Za-z0-9_.,]*$`)
	debugs = pattern.Lazy(`^([a-z0-9]+=[a-z0-9]+(,|$))+$`)
	// linkable matches flags of the linker that name no file and no program.
	linkable = pattern.Lazy(`^\s*((-s|-w|-buildid=\S*|-X[= ][^\s='"-][^\s='"]*=[^\s'"]*)(\s+|$))*$`)
)

// Read reads the build information of a program. What says that it cannot be
// built again is returned, each reason by itself. Without ldflags, they are those
// that its symbols show.
func Read(path, ldflags string) (p Program, gone []error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return p, []error{verdict.Refuse(run.RebuildFailed, path, "it has neither provenance nor build information of Go: %v", err).
			Advise("name a Go program whose build information was kept, or the provenance of the file with --bundle")}
	}
	cannot := func(code verdict.Code, format string, args ...any) {
		gone = append(gone, verdict.Refuse(code, path, format, args...).Advise(unnamed))
	}
	p = Program{BuildInfo: info, Ldflags: cmp.Or(ldflags, stripped(path))}
	said := map[string]string{}
	for _, s := range info.Settings {
		said[s.Key] = s.Value
	}
	for _, s := range info.Settings {
		switch key, value := s.Key, s.Value; {
		case key == "-trimpath", strings.HasPrefix(key, "CGO_"), strings.HasPrefix(key, "vcs"), key == "-compiler" && value == "gc":
		case key == "DefaultGODEBUG" && debugs().MatchString(value):
			p.debugs = strings.Split(value, ",")
		case key == "-buildmode" && (value == "exe" || value == "pie"):
			// The build ID depends on the flag, so a default is not passed on.
			if fixed := []string{"android", "darwin", "ios", "windows"}; slices.Contains(fixed, said["GOOS"]) != (value == "pie") {
				p.flags = append(p.flags, key+"="+value)
			}
		case key == "-tags" && plain().MatchString(value):
			p.flags = append(p.flags, key+"="+value)
		case target().MatchString(key) && plain().MatchString(value):
			p.env = append(p.env, key+"="+value)
		default:
			cannot(run.RebuildFailed, "it says that it was built with %.100q, which is not passed on", key+"="+value)
		}
	}
	if !linkable().MatchString(p.Ldflags) {
		cannot(run.RebuildFailed, "%.100q is not passed on to the linker: only -s, -w, -buildid and -X are, without quotes", p.Ldflags)
	}
	if said["-trimpath"] != "true" {
		cannot(run.SourceGone, "built without -trimpath: the directories of its source are in it")
	}
	if said["CGO_ENABLED"] != "0" {
		cannot(run.ToolchainUnavailable, "built with cgo, and it does not say with which C compiler and libraries")
	}
	switch main := info.Main; {
	case strings.HasSuffix(main.Version, "+dirty"):
		cannot(run.SourceGone, "built from %.100q with changes that are in no commit", main.Version)
	case main.Sum == "":
		cannot(run.SourceGone, "built in a directory or clone, and not from a version of its module: %.100q %.100q", main.Version, said["vcs.revision"])
	case module.CheckImportPath(info.Path) != nil || !strings.HasPrefix(info.Path+"/", main.Path+"/"):
		cannot(run.SourceGone, "%.100q is no package of a module", info.Path)
	}
	for i, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if from := cmp.Or(m.Replace, m); (i > 0 || m.Sum != "") && (module.Check(m.Path, m.Version) != nil || module.Check(from.Path, from.Version) != nil) {
			cannot(run.SourceGone, "the code of %.100q is from no version of a module: %.100q %.100q", m.Path, from.Path, from.Version)
		}
	}
	return p, gone
}

// stripped are the flags that leave out what an ELF program does not have: symbols,
// debug information.
func stripped(path string) string {
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	switch {
	case f.Section(".symtab") == nil:
		return "-s -w"
	case f.Section(".debug_info") == nil && f.Section(".zdebug_info") == nil:
		return "-w"
	}
	return ""
}

// Build builds the program in a new directory, and returns the path of the result.
func (p *Program) Build(ctx context.Context, mode sandbox.Mode, dir string) (string, error) {
	at, modules := sandbox.Seen(mode, dir), filepath.Join(dir, "modules")
	// command runs the go command outside of the sandbox. It runs no code of modules.
	command := func(proxy string, args ...string) (string, error) {
		c := exec.CommandContext(ctx, "go", args...)
		c.Dir = filepath.Join(dir, "src")
		c.Env = append(append(os.Environ(), "GOMODCACHE="+modules, "GOWORK=off", "GO111MODULE=on", "GOTOOLCHAIN=local", "GOVCS=*:off", "CGO_ENABLED=0", "GOFLAGS=-mod=mod -modcacherw", proxy), p.env...)
		out, err := c.Output()
		if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
			err = fmt.Errorf("%w: %.2000s", err, failed.Stderr)
		}
		return string(out), err
	}
	err := sandbox.Prepare(dir)
	if err != nil {
		return "", err
	}
	said, err := command("", "env", "GOVERSION", "GOPROXY", "GOSUMDB", "GONOSUMDB")
	lines := append(strings.Split(said, "\n"), "", "", "", "")
	toolchain, proxies := lines[0], lines[1]
	p.Unproven = p.leftOut(lines[2], lines[3])
	want, _, _ := strings.Cut(p.GoVersion, " ")
	if toolchain, _, _ = strings.Cut(toolchain, " "); err != nil || toolchain != want {
		failed := &verdict.Error{Finding: verdict.Find(run.ToolchainUnavailable, p.Path, "the go command of this machine is not the one that built it").Differ(want, cmp.Or(toolchain, "none")), Cause: err}
		return "", failed.Advise("put that version of Go first in PATH, and rebuild again; this says nothing about the program")
	}
	if err := os.WriteFile(filepath.Join(dir, "src", "go.mod"), p.goMod(strings.TrimPrefix(want, "go")), 0o644); err != nil { //nolint:gosec // the step reads it
		return "", err
	}
	// The hosts that the program names are not asked, but only the first proxy.
	proxy := proxies[:strings.IndexAny(proxies+"\n", ",|\n")]
	if _, err := command("GOPROXY="+proxy, append(append([]string{"list", "-deps"}, p.flags...), p.Path)...); err != nil {
		return "", verdict.Wrap(run.InputGone, "modules", err).Advise("rebuild again where a Go module proxy has these versions (GOPROXY); this says nothing about the program")
	}
	mounts, path := sandbox.Toolchains(os.Getenv("PATH"), []string{"go"})
	if mode == sandbox.Unisolated {
		mounts, path = nil, os.Getenv("PATH")
	} else {
		mounts, modules = append(mounts, sandbox.Mount{Source: modules, Target: "/build/modules"}), "/build/modules"
	}
	_, err = sandbox.Run(ctx, mode, sandbox.Step{
		Scratch: dir, Mounts: mounts,
		Command: append(append([]string{"go", "build", "-trimpath", "-ldflags=" + p.Ldflags}, p.flags...), "-o", at.Out+"/program", p.Path),
		Env: append([]string{
			"PATH=" + path, "HOME=" + at.Home, "TMPDIR=" + at.Temp, "LANG=C.UTF-8", "TZ=UTC", "GOTOOLCHAIN=local", "GOENV=off", "GOWORK=off",
			"GOFLAGS=-mod=readonly", "GOPROXY=off", "GOSUMDB=off", "GOMODCACHE=" + modules, "CGO_ENABLED=0",
		}, p.env...),
	})
	return filepath.Join(dir, "out", "program"), err
}

// leftOut reports whether a module is not compared with the checksum database.
func (p *Program) leftOut(database, except string) bool {
	return database == "off" || slices.ContainsFunc(append([]*debug.Module{&p.Main}, p.Deps...), func(m *debug.Module) bool {
		return module.MatchPrefixPatterns(except, cmp.Or(m.Replace, m).Path)
	})
}

// goMod is a module that needs exactly what was compiled.
func (p *Program) goMod(language string) []byte {
	text := []byte("module rebuild.invalid\ngo " + language + "\n")
	for _, setting := range p.debugs {
		text = fmt.Appendf(text, "godebug %s\n", setting)
	}
	for _, m := range append([]*debug.Module{&p.Main}, p.Deps...) {
		text = fmt.Appendf(text, "require %s %s\n", m.Path, m.Version)
		if m.Replace != nil {
			text = fmt.Appendf(text, "replace %s => %s %s\n", m.Path, m.Replace.Path, m.Replace.Version)
		}
	}
	return text
}
