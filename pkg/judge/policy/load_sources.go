package policy

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/osps"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/value/identity"
)

// fileVerifier is a verifier of source revisions: who signs for it, and the
// highest level that it may state on each track.
type fileVerifier struct {
	ID      string             `yaml:"id"`
	Levels  map[slsa.Track]int `yaml:"levels"`
	Signers []signer           `yaml:"signers"`
	MaxAge  string             `yaml:"maxAge"`
}

// fileDeclaration declares a requirement of a level that no program can check,
// says which role may declare it in a signed file, or says that it is not
// implementable.
type fileDeclaration struct {
	Requirement      string `yaml:"requirement"`
	Role             Role   `yaml:"role"`
	NotImplementable bool   `yaml:"notImplementable"`

	By     string `yaml:"by"`
	Until  string `yaml:"until"`
	Reason string `yaml:"reason"`
	// Levels is, for each track, the highest level that can be reached with the
	// declaration.
	Levels map[slsa.Track]int `yaml:"levels"`
}

// loadSources reads the verifiers of sources. They share no identity with any
// role or builder: see checkSeparate.
func (l *loader) loadSources() error {
	if err := filled(l, l.Sources, "sources"); err != nil {
		return err
	}
	if l.Sources != nil && len(l.Builders) == 0 {
		return l.fail(codeEmpty, at("builders"), "empty, so no provenance names a revision that the sources could be about; add a builder or remove sources")
	}
	for i, s := range l.Sources {
		path := at("sources", i)
		if s.ID == "" || slices.ContainsFunc(l.Sources[:i], func(o fileVerifier) bool { return o.ID == s.ID }) {
			return l.fail(codeValue, append(path, "id"), "%q is empty or occurs twice", s.ID)
		}
		if err := upTo(l, s.Levels, slsa.Source, append(path, "levels")); err != nil {
			return err
		}
		signers, err := l.signers(s.Signers, append(path, "signers"))
		if err != nil {
			return err
		}
		if n := slices.IndexFunc(signers, narrowed); n >= 0 {
			return l.fail(codeValue, append(path, "signers", n), "stages and classes limit signers of artifacts, but a verifier of sources signs for revisions; leave them out")
		}
		if n := slices.IndexFunc(signers, func(s allowedSigner) bool { return s.exact.Type == identity.Key }); n >= 0 {
			return l.fail(codeWeak, append(path, "signers", n), "a key does not identify the run that used it; list the verifier by identity")
		}
		var age time.Duration
		if s.MaxAge != "" {
			if age, err = l.duration(s.MaxAge, append(path, "maxAge")); err != nil {
				return err
			}
		}
		l.policy.actors.entries = append(l.policy.actors.entries, policyEntry{role: sources, builder: s.ID, signers: signers, age: age, upTo: s.Levels[slsa.Source]})
		for _, who := range signers {
			l.verifiers = append(l.verifiers, slsa.Verifier{Signer: who.matcher, VerifierID: s.ID, Level: s.Levels[slsa.Source]})
		}
	}
	return nil
}

// upTo checks the highest levels of an entry, which is about one track.
func upTo(l *loader, levels map[slsa.Track]int, track slsa.Track, path []any) error {
	if len(levels) == 0 {
		return l.fail(codeEmpty, path, "empty; want {%s: LEVEL}, the highest level that this can show", track)
	}
	for _, name := range slices.Sorted(maps.Keys(levels)) {
		if name != track {
			return l.fail(codeValue, append(path, string(name)), "unknown track %q here, want %s", name, track)
		}
		if n := levels[name]; n < 1 || n > 4 {
			return l.fail(codeValue, append(path, string(name)), "%d, want 1 to 4", n)
		}
	}
	return nil
}

// loadDeclares reads the declarations. They end, and have a reason: others have
// to be able to judge them.
func loadDeclares(l *loader) error {
	if err := filled(l, l.Declares, "declares"); err != nil {
		return err
	}
	if l.Declares != nil && len(l.Builders) == 0 {
		return l.fail(codeEmpty, at("builders"), "empty, so declares counts for nothing; add a builder or remove declares")
	}
	for i, d := range l.Declares {
		path := at("declares", i)
		if slices.ContainsFunc(l.Declares[:i], func(o fileDeclaration) bool { return o.Requirement == d.Requirement }) {
			return l.fail(codeValue, append(path, "requirement"), "%q is declared twice", d.Requirement)
		}
		if err := d.check(l, path); err != nil {
			return err
		}
		if !d.NotImplementable && (d.Levels != nil || !osps.Names(d.Requirement)) {
			if err := upTo(l, d.Levels, slsa.V01, append(path, "levels")); err != nil {
				return err
			}
		}
		until, err := l.instant(d.Until, append(path, "until"))
		if err != nil {
			return err
		}
		made := slsa.Declaration{Requirement: d.Requirement, By: d.By, Reason: d.Reason, Until: until, NotImplementable: d.NotImplementable, UpTo: d.Levels[slsa.V01], Evidence: l.policy.digest}
		if d.Role != "" {
			made.Lacks = fmt.Sprintf("a declaration signed in the role %s (--declaration FILE)", d.Role)
		}
		if err := made.Check(); err != nil {
			return l.fail(codeValue, path, "%v", err)
		}
		l.policy.declares = append(l.policy.declares, declares{made, d.Role})
	}
	return nil
}

// check refuses a row that lacks a part of its kind, or has one of another kind.
func (d fileDeclaration) check(l *loader, path []any) error {
	switch {
	case d.Role != "" && (d.NotImplementable || d.By != "" || d.Reason != "" || d.Until != ""):
		return l.fail(codeValue, path, "with role, the signed file says by, reason and until; leave them and notImplementable out, or leave role out")
	case d.Role != "" && (!d.Role.MayDeclare() || len(l.policy.actors.roles[d.Role]) == 0):
		return l.fail(codeValue, append(path, "role"), "%q, want %s or %s, with identities in roles", d.Role, Officer, Signoffs)
	case d.NotImplementable && (d.Until != "" || d.Levels != nil):
		return l.fail(codeValue, path, "what is not implementable counts towards no level; leave until and levels out")
	case d.NotImplementable && (d.By == "" || d.Reason == ""):
		return l.fail(codeEmpty, path, "want by and reason: who says that it is not implementable, and why")
	case d.Role == "" && !d.NotImplementable && (d.By == "" || d.Reason == "" || d.Until == ""):
		return l.fail(codeEmpty, path, "want by, reason and until: who declares it, why it holds, and when the declaration ends; or role: who may sign a declaration")
	}
	return nil
}

// otherLevels reads the levels that a row requires besides that of the Build
// track.
func otherLevels(l *loader, levels map[slsa.Track]int, path []any) (list []slsa.Demand, err error) {
	if levels != nil && len(levels) == 0 {
		return nil, l.fail(codeEmpty, path, "empty; leave the key out, or require a level")
	}
	for _, track := range slices.Sorted(maps.Keys(levels)) {
		switch n := levels[track]; {
		case track != slsa.V01 && track != slsa.Source:
			return nil, l.fail(codeValue, append(path, string(track)), "want v0.1 or source; level is the level of the Build track")
		case n < 1 || n > 4:
			return nil, l.fail(codeValue, append(path, string(track)), "%d, want 1 to 4", n)
		default:
			list = append(list, slsa.Demand{Track: track, Level: n})
		}
	}
	return list, nil
}
