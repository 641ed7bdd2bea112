package sbom

import (
	"cmp"
	"debug/buildinfo"
	"fmt"
	"io"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/spdx"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// maxModules bounds what one binary may claim to consist of.
const maxModules = 100_000

// Binary describes an executable by the build information that the Go
// toolchain leaves in it: main module, every dependency, toolchain, revision
// and settings. r must hold exactly the bytes that the other arguments name.
//
// An executable without build information gets a document that says that
// nothing is known of its contents.
func Binary(in Input, artifact string, r io.ReaderAt, bytes digest.Set, size int64) ([]byte, error) {
	if err := in.check(artifact, bytes); err != nil {
		return nil, err
	}
	if err := matches(io.NewSectionReader(r, 0, size+1), bytes.SHA256, size); err != nil {
		return nil, verdict.Wrap(verdict.SBOMSubject, artifact, err)
	}
	b := in.draft(artifact, bytes)
	b.subject().Purpose = spdx.Application
	info, err := readBuildInfo(r)
	if err != nil {
		b.unknown(err)
		return spdx.Encode(b.draft)
	}
	if len(info.Deps) > maxModules {
		return nil, verdict.Refuse(verdict.Limit, artifact, "%d modules, the limit is %d", len(info.Deps), maxModules)
	}
	b.modules(info)
	b.toolchain(info)
	b.subject().Comment = settings(info)
	return spdx.Encode(b.draft)
}

// matches proves that r holds the bytes the document is going to speak of.
func matches(r io.Reader, want digest.Digest, size int64) error {
	_, err := io.Copy(io.Discard, digest.NewVerifyingReader(r, want, size))
	return err
}

// readBuildInfo reads what the Go linker wrote. The parsers of executables
// below it are not made for hostile input: where one panics, the file has no
// build information that could be relied on.
func readBuildInfo(r io.ReaderAt) (info *debug.BuildInfo, err error) {
	defer func() {
		if p := recover(); p != nil {
			info, err = nil, fmt.Errorf("parsing executable: %v", p)
		}
	}()
	return buildinfo.Read(r)
}

// unknown says in words and in the graph that the contents are not known.
func (b *builder) unknown(reason error) {
	b.subject().Purpose = spdx.Other
	b.subject().Comment = fmt.Sprintf(
		"Nothing is known of the contents of this file: it carries no Go build information (%s). "+
			"This document identifies its bytes and lists none of its components.", clean(reason.Error()))
	b.relate(artifactID, spdx.Contains, spdx.NoAssertion, "components unknown")
	b.relate(artifactID, spdx.DependsOn, spdx.NoAssertion, "dependencies unknown")
}

func (b *builder) modules(info *debug.BuildInfo) {
	if info.Main.Path != "" {
		main := info.Main
		p := module(main, "Main")
		if main.Version == "" || main.Version == "(devel)" {
			p.Version, p.PURL = b.in.Version, golangURL(main.Path, b.in.Version)
		}
		b.relate(artifactID, spdx.GeneratedFrom, b.add(p), "main module, package "+clean(info.Path))
	}
	deps := slices.Clone(info.Deps)
	slices.SortFunc(deps, func(x, y *debug.Module) int {
		return cmp.Or(strings.Compare(x.Path, y.Path), strings.Compare(x.Version, y.Version))
	})
	seen := map[string]bool{}
	for _, dep := range deps {
		p := module(*dep, "Module")
		if !seen[p.ID] {
			seen[p.ID] = true
			b.relate(artifactID, spdx.DependsOn, b.add(p), "")
		}
	}
}

// module describes what was compiled in. For a replaced module that is the
// replacement; the comment says what it stands for.
func module(m debug.Module, kind string) spdx.Package {
	actual, note := m, ""
	if m.Replace != nil {
		actual = *m.Replace
		note = fmt.Sprintf("Replaces %s %s.", clean(m.Path), clean(m.Version))
	}
	path, version := clean(actual.Path), clean(actual.Version)
	p := spdx.Package{
		ID: elementID(kind, m.Path+"@"+m.Version), Name: path, Version: version,
		Purpose: spdx.Library, PURL: golangURL(path, version),
	}
	if isLocal(actual.Path) {
		// A directory of the source tree: no other tool can know it by name.
		p.PURL = ""
		note += " The replacement is a directory of the source tree."
	}
	// SPDX has no algorithm for the sum of a module, which is a hash over
	// hashes of its files: it stays what it is.
	if actual.Sum != "" {
		note += " Module checksum (go.sum): " + clean(actual.Sum)
	}
	p.Comment = strings.TrimSpace(note)
	return p
}

func isLocal(path string) bool {
	return strings.HasPrefix(path, ".") || strings.HasPrefix(path, "/") || strings.Contains(path, `\`)
}

// toolchain names the compiler and the standard library, which is part of
// every binary and of no module list.
func (b *builder) toolchain(info *debug.BuildInfo) {
	version := clean(info.GoVersion)
	if version == "" {
		return
	}
	number, _, _ := strings.Cut(strings.TrimPrefix(version, "go"), " ")
	std := b.add(spdx.Package{
		ID: "SPDXRef-Stdlib", Name: "stdlib", Version: number,
		Purpose: spdx.Library, PURL: golangURL("stdlib", number),
	})
	b.relate(artifactID, spdx.DependsOn, std, "Go standard library")
	compiler := b.add(spdx.Package{
		ID: "SPDXRef-Toolchain", Name: "go", Version: version, Purpose: spdx.Application,
		Comment: "The Go toolchain as the binary names it.",
	})
	b.relate(compiler, spdx.BuildToolOf, artifactID, "")
}

// settings prints the settings of the build, sorted, one to a line.
func settings(info *debug.BuildInfo) string {
	lines := make([]string, 0, len(info.Settings))
	for _, s := range info.Settings {
		lines = append(lines, clean(s.Key)+"="+clean(s.Value))
	}
	slices.Sort(lines)
	return strings.Join(append([]string{"Go build information, as read from the binary:"}, lines...), "\n")
}

// golangURL is a package URL of type golang. The version keeps its "v"; a
// module path is split by slashes, each segment escaped.
func golangURL(path, version string) string {
	if path == "" {
		return ""
	}
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	purl := "pkg:golang/" + strings.Join(segments, "/")
	if version == "" || version == "(devel)" {
		return purl
	}
	return purl + "@" + url.QueryEscape(version)
}

// clean bounds text from a file that a build step wrote, and takes out what
// does not show as itself: control characters, direction marks, broken UTF-8.
func clean(s string) string {
	const limit = 4096
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
}
