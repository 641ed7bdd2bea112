package slsa

import (
	"fmt"
	"slices"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
)

// Signer matches identities. [identity.Matcher] is one.
type Signer interface {
	Match(identity.Identity) bool
	String() string
}

// Pair allows a signer to sign for a builder, up to a level. It records an
// assessment of the builder.
type Pair struct {
	Signer Signer
	// Key is the digest of the long-lived key that signs, instead of a Signer.
	Key       digest.Digest
	BuilderID string
	// Level is the highest Build level that the builder can reach, 1 to 4. For
	// level 4 it is Complete, and Enforced says how.
	Level int
	// Hermetic says that its steps have no network, and that their inputs were
	// fetched before, by digest.
	Hermetic bool
	// Complete says that it lists everything that it fetched, including its own
	// image and tools.
	Complete bool
	// Enforced says by what means the builder, and not its steps, ensures that
	// nothing is used that the list lacks.
	Enforced string
}

// Verifier allows a signer to sign for a verifier of sources, up to a level.
type Verifier struct {
	Signer     Signer
	VerifierID string
	// Level is the highest Source level that is trusted, 1 to 4.
	Level int
}

// Trust says which signers a verifier trusts. The zero Trust trusts none:
// signed provenance then reaches Build level 1, like unsigned provenance.
type Trust struct {
	pairs     []Pair
	verifiers []Verifier
}

// IsZero reports whether t trusts no builder and no verifier.
func (t Trust) IsZero() bool { return len(t.pairs)+len(t.verifiers) == 0 }

// NewTrust refuses ambiguous entries: two entries for one pair, and one signer
// for builders with different trust, because the holder of that signer could
// name the better builder.
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
				return Trust{}, fmt.Errorf("reading the trust map: %s signs for builders with different trust, %q and %q", p.signer(), other.BuilderID, p.BuilderID)
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

// With returns the Trust with one builder, and none beside it.
func (t Trust) With(p Pair) Trust { return Trust{pairs: []Pair{p}, verifiers: t.verifiers} }

// check refuses a pair without a signer, and one with two.
func (p Pair) check() error {
	if enforced := p.Complete && p.Enforced != ""; p.Level == 4 && !enforced {
		return fmt.Errorf("level 4 needs a builder whose list of dependencies is complete, and how it ensures that")
	}
	if p.Key.IsZero() {
		return checkSigner(p.Signer, p.BuilderID, p.Level, 4)
	}
	if p.Signer != nil {
		return fmt.Errorf("a key and a signer")
	}
	return checkEntry(p.BuilderID, p.Level, 4)
}

func (p Pair) signer() string {
	if p.Key.IsZero() {
		return p.Signer.String()
	}
	return "key " + p.Key.String()
}

// made reports whether the signer of the pair made the statement. A key never
// matches an identity, nor an identity a key.
func (p Pair) made(e signed) bool {
	if p.Key.IsZero() {
		return e.Key().IsZero() && p.Signer.Match(e.Identity())
	}
	return e.Key().Equal(p.Key)
}

func checkSigner(s Signer, id string, level, highest int) error {
	switch {
	case s == nil || s.String() == (identity.Matcher{}).String():
		return fmt.Errorf("no signer")
	case s.Match(identity.Identity{}):
		return fmt.Errorf("the signer matches no identity")
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
// counts; none counts for a signer that patterns allow for builders with
// different trust, which [NewTrust] refuses where it can detect it. known
// reports whether the builder has an entry, even of another signer.
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

// equals reports whether two builders have the same trust.
func (p Pair) equals(o Pair) bool {
	return p.Level == o.Level && p.Hermetic == o.Hermetic && p.Complete == o.Complete
}

// verifier is the highest source level that a signer may state for a verifier,
// 0 if none.
func (t Trust) verifier(who identity.Identity, id string) (level int) {
	for _, v := range t.verifiers {
		if v.VerifierID == id && v.Signer.Match(who) && (level == 0 || v.Level < level) {
			level = v.Level
		}
	}
	return level
}
