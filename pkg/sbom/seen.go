package sbom

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/unpack"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
)

// manifests are files that list packages of ecosystems other than Go's. They
// are reported as seen and never parsed: a half-understood list is worse than a
// stated omission.
var manifests = map[string]string{
	"package.json": "npm", "package-lock.json": "npm", "npm-shrinkwrap.json": "npm", "yarn.lock": "npm", "pnpm-lock.yaml": "npm",
	"bun.lock": "npm", "bun.lockb": "npm", "deno.lock": "Deno",
	"requirements.txt": "PyPI", "pyproject.toml": "PyPI", "setup.py": "PyPI", "setup.cfg": "PyPI", "Pipfile": "PyPI", "Pipfile.lock": "PyPI",
	"poetry.lock": "PyPI", "uv.lock": "PyPI", "METADATA": "PyPI", "PKG-INFO": "PyPI",
	"Cargo.toml": "Cargo", "Cargo.lock": "Cargo", "Gemfile": "RubyGems", "Gemfile.lock": "RubyGems",
	"composer.json": "Composer", "composer.lock": "Composer", "pom.xml": "Maven",
	"build.gradle": "Gradle", "build.gradle.kts": "Gradle", "gradle.lockfile": "Gradle",
	"packages.lock.json": "NuGet", "packages.config": "NuGet", "project.assets.json": "NuGet", "pubspec.yaml": "Dart", "pubspec.lock": "Dart",
	"mix.exs": "Hex", "mix.lock": "Hex", "rebar.lock": "Hex", "Package.swift": "Swift", "Package.resolved": "Swift",
	"Podfile": "CocoaPods", "Podfile.lock": "CocoaPods", "conanfile.txt": "Conan", "conanfile.py": "Conan", "conan.lock": "Conan",
	"vcpkg.json": "vcpkg", "flake.lock": "Nix", "MODULE.bazel": "Bazel", "cabal.project.freeze": "Haskell", "stack.yaml.lock": "Haskell",
	"rpmdb.sqlite": "RPM", "Packages.db": "RPM",
	"Gopkg.lock": "Go before modules", "glide.lock": "Go before modules", "Godeps.json": "Go before modules",
}

// packagings are the extensions of files that are packages themselves.
var packagings = map[string]string{
	".deb": "Debian package", ".udeb": "Debian package", ".rpm": "RPM", ".apk": "apk or Android package", ".ipk": "opkg",
	".jar": "Maven", ".war": "Maven", ".ear": "Maven", ".aar": "Maven", ".whl": "PyPI", ".egg": "PyPI", ".conda": "Conda",
	".gem": "RubyGems", ".gemspec": "RubyGems", ".crate": "Cargo", ".nupkg": "NuGet", ".csproj": "NuGet", ".cabal": "Haskell",
	".snap": "Snap", ".flatpak": "Flatpak", ".appimage": "AppImage", ".msi": "Windows installer", ".msix": "Windows installer",
	".vsix": "Visual Studio", ".dmg": "Apple disk image", ".phar": "Composer",
}

// ecosystem returns the ecosystem of a package list or package file, or "".
func ecosystem(name string) string {
	base := path.Base(name)
	switch {
	case base == "METADATA" && !strings.HasSuffix(path.Dir(name), ".dist-info"):
		return ""
	case base == "Packages" && path.Base(path.Dir(name)) == "rpm": // below lib or lib/sysimage
		return "RPM"
	case manifests[base] != "":
		return manifests[base]
	}
	return packagings[strings.ToLower(path.Ext(base))]
}

// packaged returns the ecosystem of a described file that is itself a package,
// by its header or name, or "".
func packaged(name string, c Content) string {
	head := make([]byte, 32)
	n, _ := c.ReadAt(head, 0) // a read error is reported elsewhere
	switch text := string(head[:n]); {
	case strings.HasPrefix(text, "!<arch>\ndebian-binary"):
		return "Debian package"
	case strings.HasPrefix(text, "\xed\xab\xee\xdb"):
		return "RPM"
	}
	return ecosystem(name)
}

// maxSeen is how many files of one ecosystem are named; the rest is counted.
const maxSeen = 200

// sightings are the files that were seen but not catalogued.
type sightings struct {
	list  []string       // "npm: app/package-lock.json"
	count map[string]int // by ecosystem
	// copies are the directories named vendor with Go source below them.
	copies map[string]bool
}

// note records a file of another ecosystem, or a vendored copy.
func (s *sightings) note(name string) {
	if before, after, found := strings.Cut("/"+name, "/vendor/"); found && strings.Contains(after, "/") && strings.HasSuffix(after, ".go") {
		if s.copies == nil {
			s.copies = map[string]bool{}
		}
		s.copies[strings.TrimPrefix(before+"/vendor", "/")] = true
	}
	if eco := ecosystem(name); eco != "" {
		s.add(eco, name)
	}
}

func (s *sightings) add(eco, name string) {
	if s.count == nil {
		s.count = map[string]int{}
	}
	if s.count[eco]++; s.count[eco] <= maxSeen {
		s.list = append(s.list, eco+": "+name)
	}
}

// all returns the files in the order seen, and how many of each ecosystem are
// not named.
func (s *sightings) all() []string {
	out := s.list
	for _, eco := range slices.Sorted(maps.Keys(s.count)) {
		if more := s.count[eco] - maxSeen; more > 0 {
			out = append(out, fmt.Sprintf("%s: %d files more", eco, more))
		}
	}
	return out
}

// compressed are the extensions of compressed archives.
var compressed = pattern.Lazy(`(?i)\.(tar\.[a-z0-9]+|tgz|tbz2?|txz|tzst)$`)

// isArchive reports whether a file is an archive: by its header, or by its name
// if it is compressed.
func isArchive(name string, head []byte) bool {
	switch unpack.Sniff(head) {
	case unpack.None:
		return false
	case unpack.Tar, unpack.Zip:
		return true
	}
	return compressed().MatchString(name)
}

// isProgram recognises the header of an executable for a system that Go
// supports.
func isProgram(head []byte) bool {
	return slices.ContainsFunc([]string{
		"\x7fELF", "MZ", "\xfe\xed\xfa\xce", "\xfe\xed\xfa\xcf", "\xce\xfa\xed\xfe", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe", "\x01\xdf", "\x01\xf7",
	}, func(magic string) bool { return strings.HasPrefix(string(head), magic) })
}
