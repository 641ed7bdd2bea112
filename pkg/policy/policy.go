// Package policy says what is asked of evidence, in a file that a release
// manager can read.
//
// A [Policy] names who may act in which role, which builders are believed and
// who speaks for them, the canonical source, and the places that must hold
// nothing but the release. Every key is known and used; an empty list, an
// identity in two roles or an unknown key does not load.
//
//	p, err := policy.Parse(raw)
//	proof, err := p.Judge(evidence, policy.Ask{Role: policy.Release, Kind: "blob", Subject: name, Bytes: d})
//
// The policy judges only verified evidence; it reads no bundle itself.
package policy

import (
	"fmt"
	"maps"
	"slices"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/identity"
	"github.com/waybill-release/waybill/pkg/strictyaml"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// Role is what an identity may do.
type Role string

// The roles. Each is a separate identity; none may act in another's place.
const (
	Builder  Role = "builder"
	Release  Role = "release"
	Verifier Role = "verifier"
	Officer  Role = "policy"
)

// Places that a policy can close: nothing but the release may be in them.
const (
	Files  = "files"
	Images = "images"
)

// Policy is a parsed policy. The zero Policy accepts nobody.
type Policy struct {
	name     string
	digest   digest.Digest
	roles    map[Role][]identity.Matcher
	builders []builder
	source   string
	closed   []string
}

type builder struct {
	id   string
	says identity.Matcher
}

type file struct {
	APIVersion string                       `yaml:"apiVersion"`
	Kind       string                       `yaml:"kind"`
	Name       string                       `yaml:"name"`
	Roles      map[Role][]identity.Identity `yaml:"roles"`
	Builders   []fileBuilder                `yaml:"builders"`
	Source     fileSource                   `yaml:"source"`
	Closed     []string                     `yaml:"closed"`
}

type fileBuilder struct {
	ID       string            `yaml:"id"`
	Identity identity.Identity `yaml:"identity"`
}

type fileSource struct {
	Repository string `yaml:"repository"`
}

// Parse reads a policy strictly.
func Parse(raw []byte) (Policy, error) {
	var f file
	if err := strictyaml.Unmarshal(raw, &f); err != nil {
		return Policy{}, verdict.Wrap(verdict.ConfigParse, "policy", err)
	}
	p := Policy{name: f.Name, digest: digest.Of(digest.SHA256, raw), source: f.Source.Repository, roles: map[Role][]identity.Matcher{}}
	for _, load := range []func(file) error{p.checkHead, p.loadRoles, p.loadBuilders, p.loadClosed, checkSeparate} {
		if err := load(f); err != nil {
			return Policy{}, verdict.Wrap(verdict.ConfigParse, "policy", err)
		}
	}
	return p, nil
}

// Name is what the policy calls itself.
func (p Policy) Name() string { return p.name }

// Digest names the policy by its bytes.
func (p Policy) Digest() digest.Digest { return p.digest }

// Closes reports whether a place may hold nothing but the release.
func (p Policy) Closes(place string) bool { return slices.Contains(p.closed, place) }

func (p *Policy) checkHead(f file) error {
	switch {
	case f.APIVersion != "waybill/v1" || f.Kind != "Policy":
		return fmt.Errorf("want apiVersion waybill/v1 and kind Policy")
	case f.Name == "":
		return fmt.Errorf("name: empty")
	case f.Source.Repository == "":
		return fmt.Errorf("source.repository: empty")
	}
	return nil
}

func (p *Policy) loadRoles(f file) error {
	for _, role := range slices.Sorted(maps.Keys(f.Roles)) {
		if role != Release && role != Verifier && role != Officer {
			return fmt.Errorf("roles: %q is not release, verifier or policy", role)
		}
		if len(f.Roles[role]) == 0 {
			return fmt.Errorf("roles.%s: empty", role)
		}
		for _, who := range f.Roles[role] {
			m, err := identity.Exact(who)
			if err != nil {
				return fmt.Errorf("roles.%s: %w", role, err)
			}
			p.roles[role] = append(p.roles[role], m)
		}
	}
	if len(p.roles[Release]) == 0 {
		return fmt.Errorf("roles.release: nobody; then nothing could ever be accepted")
	}
	return nil
}

func (p *Policy) loadBuilders(f file) error {
	if len(f.Builders) == 0 {
		return fmt.Errorf("builders: empty")
	}
	for _, b := range f.Builders {
		m, err := identity.Exact(b.Identity)
		if err != nil {
			return fmt.Errorf("builders: %w", err)
		}
		if b.ID == "" || slices.ContainsFunc(p.builders, func(o builder) bool { return o.id == b.ID }) {
			return fmt.Errorf("builders: id %q is empty or stands twice", b.ID)
		}
		p.builders = append(p.builders, builder{id: b.ID, says: m})
	}
	return nil
}

func (p *Policy) loadClosed(f file) error {
	if len(f.Closed) == 0 {
		return fmt.Errorf("closed: empty; name files, images or both")
	}
	for i, place := range f.Closed {
		if place != Files && place != Images || slices.Contains(f.Closed[:i], place) {
			return fmt.Errorf("closed: %q is not files or images, or stands twice", place)
		}
	}
	p.closed = f.Closed
	return nil
}

// checkSeparate refuses an identity that appears in two roles or speaks for
// two builders: whoever holds it could stand in for both.
func checkSeparate(f file) error {
	seen := map[identity.Identity]string{}
	claim := func(who identity.Identity, place string) error {
		if other, taken := seen[who]; taken {
			return fmt.Errorf("%s is in %s and in %s; each needs its own identity", who, other, place)
		}
		seen[who] = place
		return nil
	}
	for _, role := range slices.Sorted(maps.Keys(f.Roles)) {
		for _, who := range f.Roles[role] {
			if err := claim(who, "roles."+string(role)); err != nil {
				return err
			}
		}
	}
	for _, b := range f.Builders {
		if err := claim(b.Identity, "builder "+b.ID); err != nil {
			return err
		}
	}
	return nil
}
