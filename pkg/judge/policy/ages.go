package policy

import "time"

// SummaryAges maps each verifier whose summaries the policy accepts to their
// maximum age. If several entries name a verifier, the longest age counts.
func SummaryAges(p Policy) map[string]time.Duration {
	ages := map[string]time.Duration{}
	for _, s := range p.summaries {
		ages[s.Verifier] = max(ages[s.Verifier], s.age)
	}
	return ages
}
