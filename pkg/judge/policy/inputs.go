package policy

import (
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// inputs is the key of closed that refuses inputs without a row.
const inputs = "inputs"

// inputRow is what a policy requires of one kind of input: a policy of its own.
type inputRow struct {
	image, tool string
	bundles     []string
	policy      Policy
}

// JudgesInputs reports whether the policy requires something of the images and
// tools that builds use, and how an input counts that it does not name.
func (p Policy) JudgesInputs() (unnamed Mode, judges bool) {
	if unnamed = p.whole.closed[inputs]; unnamed == "" {
		unnamed = Off
	}
	return unnamed, len(p.inputs) > 0
}

// OfInput is the policy for an image of a repository (HOST/PATH) or, without a
// repository, for a program or download of a name. The row with the longest
// address applies. It says false if no row names the input.
func (h *Session) OfInput(repository, tool string) (row Policy, named bool) {
	longest := ""
	for _, r := range h.policy.inputs {
		switch {
		case repository == "" && tool != "" && r.tool == tool:
			return r.policy, true
		case repository == "" || r.image == "" || len(r.image) < len(longest):
		case r.image == repository || strings.HasSuffix(r.image, "/") && strings.HasPrefix(repository, r.image):
			longest, row, named = r.image, r.policy, true
		}
	}
	return row, named
}

// BundlesOf are the addresses of the evidence about a tool: by default the
// bundle beside a download. A program has an address only if the row has one
// for its digest.
func (h *Session) BundlesOf(tool, url string, sum digest.Digest) (list []string) {
	templates := []string{"{url}.sigstore.json"}
	for _, r := range h.policy.inputs {
		if r.tool == tool && r.bundles != nil {
			templates = r.bundles
		}
	}
	for _, text := range templates {
		if url == "" && strings.Contains(text, "{url}") {
			continue
		}
		list = append(list, strings.NewReplacer("{url}", url, "{sha256}", sum.Hex()).Replace(text))
	}
	return list
}

// HasRules reports whether the policy has custom rules.
func (p Policy) HasRules() bool { return len(p.rules) > 0 }

// Narrow returns the policy with only these checks of artifacts, and without
// custom rules. The caller must report what it left out, because the policy
// keeps its digest.
func (p Policy) Narrow(keep ...Check) Policy {
	cells := make(map[cell]demand, len(p.cells))
	for at, d := range p.cells {
		narrow := demand{modes: map[Check]Mode{}}
		for check, mode := range d.modes {
			if !slices.Contains(keep, check) {
				mode = Off
			}
			narrow.modes[check] = mode
		}
		for _, it := range d.items {
			if slices.Contains(keep, Check(it.name)) {
				narrow.items = append(narrow.items, it)
			}
		}
		if slices.Contains(keep, Provenance) {
			narrow.level, narrow.others = d.level, d.others
		}
		if slices.Contains(keep, SBOM) {
			narrow.whole, narrow.profile = d.whole, d.profile
		}
		cells[at] = narrow
	}
	p.cells = cells
	return p
}
