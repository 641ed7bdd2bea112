package gate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// byIdentity is the identity or key that is asked for as the rule for items:
// some evidence must be by it, say what is asked, and be of the item.
type byIdentity struct{ ask Ask }

// proven is evidence that says what was asked, and what it proves.
type proven struct {
	verdict.Proof
	evidence verify.Evidence
}

// miss is evidence that does not prove what was asked, and why.
type miss struct {
	verdict.Finding
	foreign bool // it holds, and another identity signed it
}

// Decide implements [rule]. What strangers attach is counted and does not block.
func (b byIdentity) Decide(i item) *verdict.Verdict {
	name := i.question.Subject
	v := verdict.New(name, time.Time{})
	v.Counts.Required = 1
	var found []proven
	var misses []miss
	for _, e := range i.evidence {
		proof, err := b.ask.judge(e, i)
		if err != nil {
			misses = append(misses, miss{verdict.FindingOf(name, err), !b.ask.Signer.made(e)})
			continue
		}
		found = append(found, proven{proof, e})
	}
	for _, err := range i.invalid {
		misses = append(misses, miss{Finding: verdict.FindingOf(name, err)})
	}
	if len(found) == 0 {
		v.AddError(name, nearest(name, b.ask.Type, misses))
		return v
	}
	if len(misses) > 0 {
		v.Note("%s: %d other bundles refer to it (%s); they count for nothing", name, len(misses), countByReason(misses))
	}
	proof, err := b.ask.rate(v, i, found)
	if err != nil {
		v.AddError(name, err)
		return v
	}
	v.Counts.Verified, v.Proofs = 1, []verdict.Proof{proof}
	return v
}

// nearest explains why nothing was proven, by the evidence that came nearest to
// what was asked.
func nearest(name, kind string, misses []miss) error {
	if len(misses) == 0 {
		return verdict.Refuse(verdict.EvidenceMissing, name, "nothing refers to it that could say %s", kind)
	}
	best := misses[0].Finding
	for _, code := range []verdict.Code{verdict.PredicateNone, verdict.Identity, verdict.NotBound, verdict.LogUnasked, verdict.PlaceDown} {
		if i := slices.IndexFunc(misses, func(m miss) bool { return m.Code == code }); i >= 0 {
			best = misses[i].Finding
		}
	}
	if len(misses) > 1 {
		best.Message += fmt.Sprintf(" (of %d bundles that refer to it: %s)", len(misses), countByReason(misses))
	}
	return about(name, &verdict.Error{Finding: best})
}

// countByReason counts what is not what was asked, by the reason.
func countByReason(misses []miss) string {
	counts := map[string]int{}
	for _, m := range misses {
		word := "not holding: " + string(m.Code)
		switch {
		case m.foreign:
			word = "by somebody else"
		case m.Code == verdict.PredicateNone:
			word = "saying something else"
		case m.Code == verdict.NotBound:
			word = "about something else"
		}
		counts[word]++
	}
	words := make([]string, 0, len(counts))
	for word, n := range counts {
		words = append(words, fmt.Sprintf("%d %s", n, word))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}
