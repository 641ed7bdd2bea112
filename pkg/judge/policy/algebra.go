package policy

import (
	"errors"
	"fmt"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Rule is one demand: that something is shown of an artifact. Rules are made
// by the leaves of this package and by [Any] and [AtLeast].
type Rule interface {
	judge(*matter) answer
}

// answer is what a rule found. It starts from nothing proven: only a leaf that
// found what it looks for says otherwise.
type answer struct {
	met    bool
	proofs []verdict.Proof
	err    error // why not
	// near says how far the nearest fact came, so that of several reasons the
	// one that explains most is given.
	near int
}

var (
	errEmpty = errors.New("no rules to combine; then anything would pass")
	errRange = errors.New("cannot ask for so many")
)

// Any is met when one rule is.
func Any(rules ...Rule) (Rule, error) { return AtLeast(1, rules...) }

// AtLeast is met when n of the rules are, each by a signer of its own: a signer
// who meets two rules counts for one. It refuses n that is not between one and
// the number of rules.
func AtLeast(n int, rules ...Rule) (Rule, error) {
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
	rules []Rule
}

func (a atLeast) judge(m *matter) answer {
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
			against = got // worse than that too few say so
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
		Finding: verdict.Find(verdict.Threshold, m.q.Subject, "%d of %d that must agree do; the next: %v", met, a.n, nearest.err).
			Differ(fmt.Sprint(a.n), fmt.Sprint(met)),
		Cause: nearest.err,
	}}
}

// addSigners adds who signed to those who were counted, and reports whether
// anybody was new. Without a proof there is no signer to be counted twice.
func addSigners(counted map[string]bool, proofs []verdict.Proof) bool {
	added := len(proofs) == 0
	for _, p := range proofs {
		signer := fmt.Sprintf("%q %q %s", p.Issuer, p.Identity, p.Key)
		added = added || !counted[signer]
		counted[signer] = true
	}
	return added
}
