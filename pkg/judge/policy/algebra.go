package policy

import (
	"errors"
	"fmt"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// requirement is one requirement for an artifact. Requirements are made by the
// leaves of this package and by oneOf and threshold.
type requirement interface {
	judge(*judgement) answer
}

// answer is the result of a rule. Its zero value proves nothing: only a leaf
// that finds what it requires sets met.
type answer struct {
	met    bool
	proofs []verdict.Proof
	err    error // why not
	// near says how close the best fact came, to choose the most useful of
	// several reasons.
	near int
}

var (
	errEmpty = errors.New("no rules to combine: everything would be accepted")
	errRange = errors.New("the number required is out of range")
)

// oneOf is met if at least one of the rules is.
func oneOf(rules ...requirement) (requirement, error) { return threshold(1, rules...) }

// threshold is met if n rules are, each by another signer: a signer that meets
// two rules counts once. It refuses n below 1 or above the number of rules.
func threshold(n int, rules ...requirement) (requirement, error) {
	switch {
	case len(rules) == 0:
		return nil, errEmpty
	case n < 1 || n > len(rules):
		return nil, fmt.Errorf("%d of %d rules: %w", n, len(rules), errRange)
	}
	for _, r := range rules {
		if r == nil {
			return nil, errEmpty
		}
	}
	if len(rules) == 1 {
		return rules[0], nil
	}
	return atLeast{n, rules}, nil
}

type atLeast struct {
	n     int
	rules []requirement
}

func (a atLeast) judge(m *judgement) answer {
	var met int
	var all, nearest, against answer
	nearest.near = -1
	counted := map[string]bool{}
	for _, r := range a.rules {
		got := r.judge(m)
		switch {
		case got.met && a.n > 1 && !addSigners(counted, got.proofs):
			nearest = answer{err: refuse(nil, func() verdict.Finding {
				return verdict.Find(verdict.Threshold, m.q.Subject, "one signer counts once")
			})}
		case got.met:
			met++
			all.proofs = append(all.proofs, got.proofs...)
		case a.n > 1 && verdict.FindingOf("", got.err).Code == verdict.RebuildMismatch:
			against = got // more important than the count
		case got.near > nearest.near:
			nearest = got
		}
	}
	if met >= a.n {
		all.met = true
		return all
	}
	switch {
	case against.err != nil:
		return against
	case met == 0:
		return nearest
	}
	return answer{near: nearest.near, err: &verdict.Error{
		Finding: verdict.Find(verdict.Threshold, m.q.Subject, "%d of %d required results; the next one fails: %v", met, a.n, nearest.err).
			Differ(fmt.Sprint(a.n), fmt.Sprint(met)),
		Cause: nearest.err,
	}}
}

// addSigners adds signers to those already counted, and reports whether one of
// them was new. An answer without a proof has no signer that could be counted
// twice.
func addSigners(counted map[string]bool, proofs []verdict.Proof) bool {
	added := len(proofs) == 0
	for _, p := range proofs {
		signer := fmt.Sprintf("%q %q %s", p.Issuer, p.Identity, p.Key)
		added = added || !counted[signer]
		counted[signer] = true
	}
	return added
}
