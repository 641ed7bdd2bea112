package fetch

import (
	"bufio"
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Limits of one release.
const (
	maxGoSum   = 16 << 20
	maxModules = 20_000
)

// pinned is one line of go.sum, with the hashes of all lines for it: the go
// command accepts any of them.
type pinned struct {
	module.Version
	goMod  bool // of go.mod only, not the code
	hashes []string
}

// kind is "/go.mod" for a line about go.mod, as in go.sum.
func (p pinned) kind() string {
	if p.goMod {
		return "/go.mod"
	}
	return ""
}

// parseGoSums reads what go.sum files pin, sorted by path, version and kind.
func parseGoSums(files [][]byte) ([]pinned, error) {
	type key struct {
		module.Version
		goMod bool
	}
	all := map[key][]string{}
	for _, raw := range files {
		if len(raw) > maxGoSum {
			return nil, verdict.Refuse(verdict.Limit, "go.sum", "%d bytes, more than %d", len(raw), maxGoSum)
		}
		lines := bufio.NewScanner(bytes.NewReader(raw))
		for number := 1; lines.Scan(); number++ {
			parts := strings.Fields(lines.Text())
			if len(parts) == 0 {
				continue
			}
			p, err := parseLine(parts)
			if err != nil {
				return nil, verdict.Refuse(verdict.ConfigParse, "go.sum", "line %d: %v", number, err)
			}
			k := key{p.Version, p.goMod}
			all[k] = append(all[k], p.hashes...)
		}
		if err := lines.Err(); err != nil {
			return nil, verdict.Wrap(verdict.ConfigParse, "go.sum", err)
		}
	}
	if len(all) > 2*maxModules {
		return nil, verdict.Refuse(verdict.Limit, "go.sum", "%d lines, more than %d", len(all), 2*maxModules)
	}
	list := make([]pinned, 0, len(all))
	for k := range maps.Keys(all) {
		list = append(list, pinned{k.Version, k.goMod, all[k]})
	}
	slices.SortFunc(list, func(a, b pinned) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), semver.Compare(a.Version.Version, b.Version.Version),
			cmp.Compare(a.Version.Version, b.Version.Version), cmp.Compare(a.kind(), b.kind()))
	})
	return list, nil
}

// parseLine reads path, version and hash. Path and version must follow the go
// command's rules, because they become addresses and file names.
func parseLine(parts []string) (pinned, error) {
	if len(parts) != 3 || !strings.HasPrefix(parts[2], "h1:") {
		return pinned{}, verdict.Refuse(verdict.ConfigParse, "go.sum", "want path, version and h1: hash")
	}
	version, goMod := strings.CutSuffix(parts[1], "/go.mod")
	m := module.Version{Path: parts[0], Version: version}
	if err := module.Check(m.Path, m.Version); err != nil {
		return pinned{}, err
	}
	if module.CanonicalVersion(m.Version) != m.Version {
		return pinned{}, verdict.Refuse(verdict.ConfigParse, "go.sum", "%q is not a canonical version", m.Version)
	}
	return pinned{m, goMod, []string{parts[2]}}, nil
}
