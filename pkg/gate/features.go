package gate

import (
	"github.com/waybill-release/waybill/pkg/judge/policy"
)

// Switches say which requirements of a policy are in force where features
// switch them on and off.
type Switches interface {
	// For returns the policy in force for these places.
	For(p policy.Policy, places ...string) (policy.Policy, error)
}

// Effective returns the policy in force for these places: the policy as
// written, if no feature switches it.
func Effective(s Switches, p policy.Policy, places ...string) (policy.Policy, error) {
	if s == nil {
		return p, nil
	}
	return s.For(p, places...)
}

// places are the canonical addresses of a release. It is judged for them
// wherever it is read, so also before promotion.
func (c Canonical) places() []string {
	all := []string{c.Files}
	if c.Images != "" {
		all = append(all, c.Images)
	}
	return all
}
