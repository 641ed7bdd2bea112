package slsa

import (
	"fmt"
	"slices"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
)

// Signer decides whether an identity is the one that is meant.
// [identity.Matcher] is one.
type Signer interface {
	Match(identity.Identity) bool
	String() string
}

// Pair lets a signer speak for a builder, up to a level. It is what somebody
// who assessed the builder wrote down.
type Pair struct {
	Signer Signer
	// Key is the digest of the long-lived key that signs, instead of a Signer.
	Key       digest.Digest
	BuilderID string
	// Level is the highest level of the Build track that the builder can
	// reach, 1 to 3.
	Level int
	// Hermetic says that its steps have no network and that what they use was
	// fetched before, by digest.
	Hermetic bool
	// Complete says that it lists everything that it fetched, its own image
	// and tools included.
	Complete bool
}

// Verifier lets a signer speak for a verifier of sources, up to a level.
type Verifier struct {
	Signer     Signer
	VerifierID string
	// Level is the highest level of the Source track that is believed, 1 to 4.
	Level int
}

// Trust is whom a verifier believes. The zero Trust believes nobody: whatever
// is signed then reaches level 1 of the Build track, like what nobody signed.
type Trust struct {
	pairs     []Pair
	verifiers []Verifier
}

// NewTrust refuses what could be read in two ways: two entries for one pair,
// and one signer for builders of different trust, because whoever holds that
// signer can name the better builder.
func NewTrust(pairs []Pair, verifiers []Verifier) (Trust, error) {
	for i, p := range pairs {
		if err := p.check(); err != nil {
			return Trust{}, fmt.Errorf("reading builder %d of the trust map: %w", i+1, err)
		}
		for _, other := range pairs[:i] {
			if other.signer() != p.signer() {
				continue
			}
			if other.BuilderID == p.BuilderID {
				return Trust{}, fmt.Errorf("reading the trust map: builder %q has two entries for %s", p.BuilderID, p.signer())
			}
			if !other.equals(p) {
				return Trust{}, fmt.Errorf("reading the trust map: %s speaks for builders of different trust, %q and %q", p.signer(), other.BuilderID, p.BuilderID)
			}
		}
	}
	for i, v := range verifiers {
		if err := checkSigner(v.Signer, v.VerifierID, v.Level, 4); err != nil {
			return Trust{}, fmt.Errorf("reading verifier %d of the trust map: %w", i+1, err)
		}
		if slices.ContainsFunc(verifiers[:i], func(other Verifier) bool {
			return other.VerifierID == v.VerifierID && other.Signer.String() == v.Signer.String()
		}) {
			return Trust{}, fmt.Errorf("reading the trust map: verifier %q has two entries for %s", v.VerifierID, v.Signer)
		}
	}
	return Trust{pairs: slices.Clone(pairs), verifiers: slices.Clone(verifiers)}, nil
}

// check refuses a pair of nobody, and one of two signers.
func (p Pair) check() error {
	if p.Key.IsZero() {
		return checkSigner(p.Signer, p.BuilderID, p.Level, 3)
	}
	if p.Signer != nil {
		return fmt.Errorf("a key and a signer")
	}
	return checkEntry(p.BuilderID, p.Level, 3)
}

// signer names who signs.
func (p Pair) signer() string {
	if p.Key.IsZero() {
		return p.Signer.String()
	}
	return "key " + p.Key.String()
}

// made reports whether the signer of the pair is the one. A key is no
// identity, and an identity no key.
func (p Pair) made(e signed) bool {
	if p.Key.IsZero() {
		return e.Key().IsZero() && p.Signer.Match(e.Identity())
	}
	return e.Key().Equal(p.Key)
}

func checkSigner(s Signer, id string, level, highest int) error {
	switch {
	case s == nil || s.String() == "" || s.String() == (identity.Matcher{}).String():
		return fmt.Errorf("no signer")
	case s.Match(identity.Identity{}):
		return fmt.Errorf("the signer may be nobody")
	}
	return checkEntry(id, level, highest)
}

func checkEntry(id string, level, highest int) error {
	switch {
	case id == "":
		return fmt.Errorf("no id")
	case level < 1 || level > highest:
		return fmt.Errorf("level %d, want 1 to %d", level, highest)
	}
	return nil
}

// pair finds the entry for a signer and a builder. Of several the lowest
// counts; none counts for a signer whom patterns let speak for builders of
// different trust, as [NewTrust] refuses where it can see it. known says that
// the builder has an entry, be it of another signer.
func (t Trust) pair(e signed, builder string) (found Pair, known bool) {
	var others []Pair
	for _, p := range t.pairs {
		known = known || p.BuilderID == builder
		switch {
		case !p.made(e):
		case p.BuilderID != builder:
			others = append(others, p)
		case found.Level == 0 || p.Level < found.Level:
			found = p
		}
	}
	if slices.ContainsFunc(others, func(o Pair) bool { return !o.equals(found) }) {
		return Pair{}, known
	}
	return found, known
}

// equals reports whether two builders are believed the same.
func (p Pair) equals(o Pair) bool {
	return p.Level == o.Level && p.Hermetic == o.Hermetic && p.Complete == o.Complete
}

// verifier is the highest source level that a signer may state in a verifier's
// name, 0 for none.
func (t Trust) verifier(who identity.Identity, id string) (level int) {
	for _, v := range t.verifiers {
		if v.VerifierID == id && v.Signer.Match(who) && (level == 0 || v.Level < level) {
			level = v.Level
		}
	}
	return level
}
