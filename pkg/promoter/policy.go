package promoter

import (
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/verdict"
)

// Demands reports whether the policy is one, and is not off.
func (p *Policy) Demands() bool { return p != nil && p.Mode != "" && p.Mode != "off" }

// check refuses a policy that demands nothing it can be held to.
func (p *Policy) check() error {
	if p == nil {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return verdict.Refuse(verdict.ConfigParse, "provenance", format, args...)
	}
	if !slices.Contains([]string{"", "off", "warn", "require"}, p.Mode) {
		return refuse("mode %q: want off, warn or require", p.Mode)
	}
	if p.Demands() && (len(p.Signers) == 0 || len(p.Builders) == 0 || len(p.Sources) == 0) {
		return refuse("a policy that is not off needs signers, builders and sources")
	}
	for _, b := range p.Builders {
		if b.ID == "" || b.Level < 1 || b.Level > 3 {
			return refuse("builder %q: want an id, and a level from 1 to 3", b.ID)
		}
		for _, s := range b.Signers {
			if !slices.Contains(p.Signers, s) {
				return refuse("builder %s has the signer %s, whom the policy does not", b.ID, s)
			}
		}
	}
	for _, s := range p.Sources {
		if strings.TrimSpace(s) == "" || strings.Contains(s, "@") {
			return refuse("source %q: want a repository without a ref", s)
		}
	}
	for _, l := range p.Levels {
		if l.Level < 1 || l.Level > 3 || len(l.Images) == 0 {
			return refuse("levels: want images, and a level from 1 to 3")
		}
		for _, pattern := range l.Images {
			if _, err := path.Match(pattern, "x"); err != nil {
				return refuse("levels: %q is no pattern", pattern)
			}
		}
	}
	if p.Level != 0 && (p.Level < 2 || p.Level > 3) {
		return refuse("level %d: want 2 or 3", p.Level)
	}
	return nil
}
