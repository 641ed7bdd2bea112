package promoterfile

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Policy is the provenance section of a manifest: the requirements of a project
// for its images. README.md specifies each field.
type Policy struct {
	Mode           string    `yaml:"mode" json:"mode,omitempty"` // off, warn or require
	Signers        []string  `yaml:"signers" json:"signers,omitempty"`
	Builders       []Builder `yaml:"builders" json:"builders,omitempty"`
	Sources        []string  `yaml:"sources" json:"sources,omitempty"`
	PredicateTypes []string  `yaml:"predicateTypes" json:"predicateTypes,omitempty"`
	Level          int       `yaml:"level" json:"level,omitempty"`
	Levels         []Level   `yaml:"levels" json:"levels,omitempty"`
	// InsecureAcceptUnsigned lets mode warn accept images without anything
	// signed by a listed signer.
	InsecureAcceptUnsigned bool `yaml:"insecureAcceptUnsigned" json:"insecureAcceptUnsigned,omitempty"`
}

// Builder is a builder that a policy trusts, and up to which level.
type Builder struct {
	ID      string   `yaml:"id" json:"id,omitempty"`
	Level   int      `yaml:"level" json:"level,omitempty"`
	Signers []string `yaml:"signers" json:"signers,omitempty"`
	Caller  *Caller  `yaml:"caller" json:"caller,omitempty"`
}

// Level is the required level of some images.
type Level struct {
	Images []string `yaml:"images" json:"images,omitempty"`
	Level  int      `yaml:"level" json:"level,omitempty"`
}

// The modes of a policy. An empty mode is off.
const (
	ModeOff     = "off"
	ModeWarn    = "warn"
	ModeRequire = "require"
)

// The levels that a policy can require. A trusted signer of provenance is at
// least at level 2.
const (
	leastDemand = 2
	mostLevel   = 3
)

// Demands reports whether there is a policy with a mode other than off.
func (p *Policy) Demands() bool { return p != nil && p.Mode != "" && p.Mode != ModeOff }

// Digest is the digest of the policy's contents.
func (p *Policy) Digest() digest.Digest {
	raw, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("promoterfile: a policy of texts: %v", err))
	}
	return digest.Of(digest.SHA256, raw)
}

// Signer is who may sign: an exact identity, or a pattern of identities of one
// issuer.
type Signer struct {
	Issuer, Subject string
	Pattern         bool // Subject is a regular expression
}

// The forms of a signer: an exact identity, and a regular expression.
const (
	exactScheme   = "sigstore::"
	patternScheme = "sigstore(identityMatch=regex)::"
)

// ParseSigner reads sigstore::ISSUER::IDENTITY and
// sigstore(identityMatch=regex)::ISSUER::PATTERN. Other forms are refused.
func ParseSigner(spec string) (Signer, error) {
	rest, keyless := strings.CutPrefix(spec, exactScheme)
	pattern := false
	if !keyless {
		rest, pattern = strings.CutPrefix(spec, patternScheme)
	}
	issuer, subject, two := strings.Cut(rest, "::")
	if !keyless && !pattern || !two || issuer == "" || subject == "" || strings.Contains(subject, "::") {
		return Signer{}, verdict.Refuse(verdict.ConfigParse, "provenance", "signer %q: want %sISSUER::IDENTITY or %sISSUER::PATTERN", spec, exactScheme, patternScheme)
	}
	return Signer{issuer, subject, pattern}, nil
}

// Matcher decides whether an identity is the signer. The URL of a workflow
// contains an @ too, so a subject is an e-mail address only if it has no scheme.
// A pattern has to match the whole identity, as in the promoter; one that
// leaves open who the owner is is refused.
func (s Signer) Matcher() (identity.Matcher, error) {
	kind := identity.Email
	if strings.Contains(s.Subject, "://") || !strings.Contains(s.Subject, "@") {
		kind = identity.URI
	}
	m, err := identity.Exact(identity.Identity{Issuer: s.Issuer, Subject: s.Subject, Type: kind})
	code := verdict.ConfigParse
	if s.Pattern {
		m, err = identity.Pattern(s.Issuer, s.Subject, kind)
		code = verdict.PolicyWeak
	}
	if err != nil {
		return identity.Matcher{}, verdict.Wrap(code, "provenance", fmt.Errorf("signer %s: %w", s.Subject, err))
	}
	return m, nil
}

// Claimable are the builders for which somebody may sign, by the signers of the
// policy that match: the builders that name one of them or, if none does, those
// that name no signers.
func (p *Policy) Claimable(signers ...string) []Builder {
	var named, open []Builder
	for _, b := range p.Builders {
		switch {
		case len(b.Signers) == 0:
			open = append(open, b)
		case slices.ContainsFunc(signers, func(s string) bool { return slices.Contains(b.Signers, s) }):
			named = append(named, b)
		}
	}
	if len(named) > 0 {
		return named
	}
	return open
}

// Ceiling is the highest level that the policy trusts somebody for, by the
// signers that match. Who may sign for several builders can name the best of
// them, so it is the lowest of their levels.
func (p *Policy) Ceiling(signers ...string) int {
	level := 0
	for _, b := range p.Claimable(signers...) {
		if level == 0 || b.Level < level {
			level = b.Level
		}
	}
	return level
}

// Is reports whether an id in provenance is this builder. A builder without a
// ref is meant at every ref.
func (b Builder) Is(id string) bool { return b.ID == id || b.covers(id) }

func (b Builder) covers(id string) bool {
	return !strings.Contains(b.ID, "@") && strings.HasPrefix(id, b.ID+"@")
}

// From reports whether the policy lets a build be from a repository.
func (p *Policy) From(repository string) bool {
	return repository != "" && slices.ContainsFunc(p.Sources, func(s string) bool { return canonicalRepository(s) == canonicalRepository(repository) })
}

// canonicalRepository normalises the address of a repository.
func canonicalRepository(repository string) string {
	name := strings.TrimPrefix(strings.TrimPrefix(repository, "git+"), "https://")
	return strings.TrimSuffix(strings.TrimSuffix(name, "/"), ".git")
}

// LevelOf is the required level of an image, by its name below the source. Zero
// means the highest level that the policy trusts the signer for.
func (p *Policy) LevelOf(image string) int {
	level := p.Level
	for _, l := range p.Levels {
		if slices.ContainsFunc(l.Images, func(pattern string) bool { ok, err := path.Match(pattern, image); return ok && err == nil }) {
			level = max(level, l.Level)
		}
	}
	return level
}

// check reports each way in which a policy requires nothing or contradicts
// itself, and the value at fault.
func (p *Policy) check(report func(about string, err error)) {
	refuse := func(about, format string, args ...any) { report(about, refuse(format, args...)) }
	if !slices.Contains([]string{"", ModeOff, ModeWarn, ModeRequire}, p.Mode) {
		refuse(p.Mode, "mode %q: want off, warn or require", p.Mode)
	}
	if p.Demands() && (len(p.Signers) == 0 || len(p.Builders) == 0 || len(p.Sources) == 0) {
		refuse(p.Mode, "a policy that is not off needs signers, builders and sources")
	}
	if p.InsecureAcceptUnsigned && p.Mode != ModeWarn {
		refuse("insecureAcceptUnsigned", "insecureAcceptUnsigned is for mode warn: with mode %q nothing unsigned is accepted", p.Mode)
	}
	highest := 0
	for _, spec := range p.Signers {
		s, err := ParseSigner(spec)
		if err == nil {
			_, err = s.Matcher()
		}
		report(spec, err)
		highest = max(highest, p.Ceiling(spec))
	}
	for i, b := range p.Builders {
		report(b.ID, p.checkBuilder(b, p.Builders[:i]))
	}
	for _, s := range p.Sources {
		if strings.TrimSpace(s) != s || canonicalRepository(s) == "" || strings.Contains(s, "@") {
			refuse(s, "source %q: want a repository without a ref", s)
		}
	}
	for _, t := range p.PredicateTypes {
		if strings.TrimSpace(t) != t || t == "" {
			refuse(t, "predicateTypes: %q is not a predicate type", t)
		}
	}
	switch {
	case p.Level != 0 && (p.Level < leastDemand || p.Level > mostLevel):
		refuse("level", "level %d: want 2 or 3", p.Level)
	case p.Level > highest && p.Demands():
		refuse("level", "level %d: with these builders and signers no image can show more than %d", p.Level, highest)
	}
	for _, l := range p.Levels {
		report(strings.Join(l.Images[:min(1, len(l.Images))], ""), p.checkLevel(l, highest))
	}
}

func refuse(format string, args ...any) error {
	return verdict.Refuse(verdict.ConfigParse, "provenance", format, args...)
}

func (p *Policy) checkBuilder(b Builder, others []Builder) error {
	if strings.TrimSpace(b.ID) == "" || b.Level < 1 || b.Level > mostLevel {
		return refuse("builder %q: want an id, and a level from 1 to 3", b.ID)
	}
	for _, s := range b.Signers {
		if !slices.Contains(p.Signers, s) {
			return refuse("builder %s names the signer %s, which is not among the policy's signers", b.ID, s)
		}
	}
	for _, other := range others {
		switch {
		case other.ID == b.ID:
			return refuse("builder %s is listed twice", b.ID)
		case (other.covers(b.ID) || b.covers(other.ID)) && (len(b.Signers) == 0) != (len(other.Signers) == 0):
			return refuse("builders %s and %s are the same, but only one of them names signers", other.ID, b.ID)
		}
	}
	return b.Caller.check(b.ID)
}

func (p *Policy) checkLevel(l Level, highest int) error {
	if l.Level < leastDemand || l.Level > mostLevel || len(l.Images) == 0 {
		return refuse("levels: want images, and a level of 2 or 3")
	}
	if l.Level > highest && p.Demands() {
		return refuse("levels: with these builders and signers no image can show more than %d, and %q asks for %d", highest, l.Images, l.Level)
	}
	for _, pattern := range l.Images {
		if _, err := path.Match(pattern, "x"); err != nil || pattern == "" || strings.HasPrefix(pattern, "/") || strings.HasSuffix(pattern, "/") {
			return refuse("levels: %q is not a pattern of image names below the source", pattern)
		}
	}
	return nil
}
