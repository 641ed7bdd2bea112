package gate

import (
	"slices"

	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/slsa"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
)

// reached notes the level of the Build track that the provenance of one more
// manifest shows, of all that the policy counted. Where none can be read the
// manifest is left out of what the verdict's least level is of.
func (r PolicyRequest) reached(v *verdict.Verdict, q policy.Question, evidence []verify.Evidence) {
	best := -1
	for _, e := range evidence {
		counted := slices.ContainsFunc(v.Proofs, func(p verdict.Proof) bool {
			return p.Role == string(policy.Builder) && p.Subject == q.Subject && p.Bundle.Equal(e.Bundle())
		})
		if !counted {
			continue
		}
		if report, err := r.Policy.Hear().Level(e, q); err == nil {
			best = max(best, report.On(slsa.Build).Level)
		}
	}
	switch {
	case best < 0:
	case v.Least == nil:
		v.Least = &verdict.Least{Track: string(slsa.Build), Level: best, Artifacts: 1, Path: []string{q.Subject}}
	default:
		v.Least.Artifacts++
		if best < v.Least.Level {
			v.Least.Level, v.Least.Path = best, []string{q.Subject}
		}
	}
}

// ofAll drops the least level where it is not of everything that was judged.
func ofAll(v *verdict.Verdict, judged int) {
	if v.Least != nil && v.Least.Artifacts < judged {
		v.Least = nil
	}
}
