package policy

import "time"

// SummaryAges are the verifiers whose summaries count by the policy, and how
// old a summary of each may be: where several entries name one, the oldest that
// any lets count.
func SummaryAges(p Policy) map[string]time.Duration {
	ages := map[string]time.Duration{}
	for _, s := range p.summaries {
		ages[s.Verifier] = max(ages[s.Verifier], s.age)
	}
	return ages
}
