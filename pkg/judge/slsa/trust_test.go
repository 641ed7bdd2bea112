package slsa

import "testing"

// TestSignerOfDifferentBuilders: patterns of builders of different trust can
// match one signer, who then speaks for neither.
func TestSignerOfDifferentBuilders(t *testing.T) {
	hosted := Pair{Signer: only(t, "a"), BuilderID: "x", Level: 3}
	for _, row := range []struct {
		name  string
		other Pair
		want  int
	}{
		{"of another signer", Pair{Signer: only(t, "b"), BuilderID: "y", Level: 1}, 3},
		{"of the same trust", Pair{Signer: anybody{}, BuilderID: "y", Level: 3}, 3},
		{"of another level", Pair{Signer: anybody{}, BuilderID: "y", Level: 1}, 0},
		{"hermetic", Pair{Signer: anybody{}, BuilderID: "y", Level: 3, Hermetic: true}, 0},
		{"complete", Pair{Signer: anybody{}, BuilderID: "y", Level: 3, Complete: true}, 0},
	} {
		p, known := Trust{pairs: []Pair{hosted, row.other}}.pair(witness{who: who("a")}, "x")
		if p.Level != row.want || !known {
			t.Errorf("beside a builder %s: level %d, known %t, want level %d", row.name, p.Level, known, row.want)
		}
	}
}

// TestVerifierTwice: of two entries for one signer and verifier, the lower level
// counts, whichever is listed first.
func TestVerifierTwice(t *testing.T) {
	high, low := Verifier{Signer: anybody{}, VerifierID: "x", Level: 3}, Verifier{Signer: only(t, "a"), VerifierID: "x", Level: 2}
	for _, list := range [][]Verifier{{high, low}, {low, high}} {
		trust := Trust{verifiers: list}
		if got := trust.verifier(who("a"), "x"); got != 2 {
			t.Errorf("%v: level %d, want 2", list, got)
		}
		if got := trust.verifier(who("b"), "x"); got != 3 {
			t.Errorf("another signer: level %d, want 3", got)
		}
	}
}
