package sbom

import (
	"path"
	"strings"
)

// manifests are files that name packages of ecosystems other than Go's. They
// are listed as seen, never read: a list that is half understood is worse than
// one that says what it leaves out.
var manifests = map[string]string{
	"package-lock.json": "npm", "npm-shrinkwrap.json": "npm", "yarn.lock": "npm", "pnpm-lock.yaml": "npm", "bun.lock": "npm",
	"requirements.txt": "PyPI", "Pipfile.lock": "PyPI", "poetry.lock": "PyPI", "uv.lock": "PyPI", "METADATA": "PyPI",
	"Cargo.lock": "Cargo", "Gemfile.lock": "RubyGems", "composer.lock": "Composer", "pom.xml": "Maven",
	"gradle.lockfile": "Gradle", "packages.lock.json": "NuGet", "pubspec.lock": "Dart", "mix.lock": "Hex",
	"Package.resolved": "Swift", "Podfile.lock": "CocoaPods", "conan.lock": "Conan", "rpmdb.sqlite": "RPM", "Packages.db": "RPM",
}

// ecosystem names the ecosystem whose packages a file lists, or "".
func ecosystem(name string) string {
	base := path.Base(name)
	switch {
	case base == "METADATA" && !strings.HasSuffix(path.Dir(name), ".dist-info"):
		return ""
	case base == "package.json" && strings.Contains(name, "node_modules/"):
		return "npm"
	case strings.HasSuffix(base, ".jar"), strings.HasSuffix(base, ".war"):
		return "Maven"
	case base == "Packages" && strings.HasSuffix(path.Dir(name), "lib/rpm"):
		return "RPM"
	}
	return manifests[base]
}

// isProgram looks for the head of an executable of a system that Go builds for.
func isProgram(head []byte) bool {
	for _, magic := range []string{
		"\x7fELF", "MZ", "\xfe\xed\xfa\xce", "\xfe\xed\xfa\xcf", "\xce\xfa\xed\xfe", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe", "\x01\xdf", "\x01\xf7",
	} {
		if strings.HasPrefix(string(head), magic) {
			return true
		}
	}
	return false
}
