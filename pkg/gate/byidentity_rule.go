package gate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// byIdentity is the [rule] of a required identity or key: some evidence must be
// signed by it, have the required type, and be about the item.
type byIdentity struct{ ask Ask }

// proven is evidence that meets the request, and its proof.
type proven struct {
	verdict.Proof
	evidence verify.Evidence
}

// miss is evidence that does not meet the request, and why.
type miss struct {
	verdict.Finding
	foreign bool // valid, but signed by another identity
	at      time.Time
}

// Decide implements [rule]. Evidence by other signers is counted and does not
// block.
func (b byIdentity) Decide(i item) *verdict.Verdict {
	name := i.question.Subject
	v := verdict.New(name, time.Time{})
	v.Counts.Required = 1
	var found []proven
	var misses []miss
	for _, e := range i.evidence {
		proof, err := b.ask.judge(e, i)
		if err != nil {
			misses = append(misses, miss{verdict.FindingOf(name, err), !b.ask.Signer.made(e), e.SignedAt()})
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
	for _, m := range misses { // a summary that passed does not excuse a later one that did not
		if m.Code == verdict.VSAResult && !slices.ContainsFunc(found, func(p proven) bool { return p.evidence.SignedAt().After(m.at) }) {
			v.Add(m.Finding)
			return v
		}
	}
	if len(misses) > 0 {
		v.Note("%s: ignored %s (%s)", name, plural.Of(len(misses), "other bundle"), countByReason(misses))
	}
	noteTimestamps(v, name, i.evidence)
	proof, err := b.ask.rate(v, i, found)
	if err != nil {
		v.AddError(name, err)
		return v
	}
	v.Counts.Verified, v.Proofs = 1, []verdict.Proof{proof}
	return v
}

// noteTimestamps says which timestamps of verified evidence prove nothing.
func noteTimestamps(v *verdict.Verdict, name string, evidence []verify.Evidence) {
	for _, e := range evidence {
		if n := e.UnknownTimestamps(); n > 0 {
			v.Note("%s: ignored %s by an authority that the trust root does not name", name, plural.Of(n, "timestamp"))
		}
	}
}

// nearest explains why nothing was proven, by the evidence that came closest.
func nearest(name, kind string, misses []miss) error {
	if len(misses) == 0 {
		return verdict.Refuse(verdict.EvidenceMissing, name, "no evidence of type %s is attached", kind)
	}
	best := misses[0].Finding
	for _, code := range []verdict.Code{verdict.PredicateNone, verdict.Identity, verdict.NotBound, verdict.LogUnasked, verdict.PlaceDown} {
		if i := slices.IndexFunc(misses, func(m miss) bool { return m.Code == code }); i >= 0 {
			best = misses[i].Finding
		}
	}
	if len(misses) > 1 {
		best.Message += fmt.Sprintf(" (of %d bundles: %s)", len(misses), countByReason(misses))
	}
	return about(name, &verdict.Error{Finding: best})
}

// countByReason counts the evidence that does not meet the request, by reason.
func countByReason(misses []miss) string {
	counts := map[string]int{}
	for _, m := range misses {
		word := "invalid: " + string(m.Code)
		switch {
		case m.foreign:
			word = "by another signer"
		case m.Code == verdict.PredicateNone:
			word = "of another type"
		case m.Code == verdict.NotBound:
			word = "about another artifact"
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
