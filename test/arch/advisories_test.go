package arch_test

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// advisory says from which version on a module does not have a known fault.
type advisory struct{ module, fixed, id, why string }

// advisories are the faults of modules that some go.mod here requires. A row
// stays when its fault is long mended: it keeps a pin from going back.
var advisories = []advisory{
	{"golang.org/x/mod", "v0.40.0", "CVE-2026-56865", "a reader of log tiles believes forged ones; package sign reads tiles"},
	{"golang.org/x/mod", "v0.40.0", "CVE-2026-56864", "a lookup in a checksum database takes hashes that no tree vouches for"},
	{"golang.org/x/crypto", "v0.45.0", "CVE-2025-58181", "a request without end fills the memory of an SSH server"},
	{"github.com/golang-jwt/jwt/v5", "v5.2.2", "CVE-2025-30204", "a token of many dots fills the memory of who parses it"},
	{"github.com/golang-jwt/jwt/v4", "v4.5.2", "CVE-2025-30204", "a token of many dots fills the memory of who parses it"},
	{"github.com/ulikunitz/xz", "v0.5.15", "CVE-2025-58058", "a corrupt archive fills the memory of who unpacks it"},
	{"github.com/sigstore/timestamp-authority/v2", "v2.0.3", "CVE-2025-66564", "a request of many parts fills the memory of the authority"},
}

// knownFaults refuses a go.mod, of the product, of the tests, of a peer or of a
// tool, that requires a module in a version with a known fault.
func knownFaults(tr *tree) (refusals []string) {
	found := 0
	for _, name := range tr.names {
		if path.Base(name) != "go.mod" || strings.Contains(name, "testdata/") {
			continue
		}
		found++
		raw, err := fs.ReadFile(tr.fsys, name)
		if err != nil {
			return append(refusals, err.Error())
		}
		file, err := modfile.Parse(name, raw, nil)
		if err != nil {
			refusals = append(refusals, err.Error())
			continue
		}
		for _, selected := range selections(file) {
			for _, a := range advisories {
				if selected.Path == a.module && semver.Compare(selected.Version, a.fixed) < 0 {
					refusals = append(refusals, fmt.Sprintf("%s requires %s %s, which has %s (%s): require %s or later",
						name, a.module, selected.Version, a.id, a.why, a.fixed))
				}
			}
		}
	}
	if found == 0 {
		refusals = append(refusals, "there is no go.mod to hold against the advisories")
	}
	return refusals
}

// selections are the modules that a go.mod requires, as it replaces them. From
// Go 1.17 on it names all that its packages are built with.
func selections(file *modfile.File) (all []module.Version) {
	for _, r := range file.Require {
		one := r.Mod
		for _, to := range file.Replace {
			if to.Old.Path == one.Path && (to.Old.Version == "" || to.Old.Version == one.Version) && to.New.Version != "" {
				one = to.New
			}
		}
		all = append(all, one)
	}
	return all
}

func adviseSeeds() []seed {
	peer := func(required string) map[string]string {
		return map[string]string{"go.mod": "module a\n\ngo 1.26\n", "test/peers/x/go.mod": "module b\n\ngo 1.26\n\n" + required + "\n"}
	}
	refused := func(version string) string {
		return "test/peers/x/go.mod requires golang.org/x/mod " + version + ", which has CVE-2026-56865"
	}
	fixed := peer("require golang.org/x/mod v0.40.0")
	return []seed{
		{"known faults", refused("v0.39.0"), peer("require golang.org/x/mod v0.39.0"), fixed},
		{"known faults", refused("v0.30.0"), peer("require golang.org/x/mod v0.30.0 // indirect"), peer("require golang.org/x/mod v0.41.0 // indirect")},
		{"known faults", refused("v0.40.0-rc.1"), peer("require golang.org/x/mod v0.40.0-rc.1"), fixed},
		{"known faults", refused("v0.39.0"), peer("require golang.org/x/mod v0.41.0\nreplace golang.org/x/mod => golang.org/x/mod v0.39.0"),
			peer("require golang.org/x/mod v0.39.0\nreplace golang.org/x/mod => golang.org/x/mod v0.40.0")},
		{"known faults", "there is no go.mod", one("pkg/a.md", ""), fixed},
	}
}
