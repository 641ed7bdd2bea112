package gate

import (
	"github.com/waybill-release/waybill/pkg/judge/policy"
)

// Switches say how far the requirements of a policy count just now, where
// features switch them on and off.
type Switches interface {
	// For is the policy as it counts for what is at these places, or goes there.
	For(p policy.Policy, places ...string) (policy.Policy, error)
}

// Effective is the policy as it counts for what is at these places, or goes
// there: as it is written, if nothing switches it.
func Effective(s Switches, p policy.Policy, places ...string) (policy.Policy, error) {
	if s == nil {
		return p, nil
	}
	return s.For(p, places...)
}

// places are where a release belongs, wherever it is looked at: before it is
// promoted it is judged for where it goes.
func (c Canonical) places() []string {
	all := []string{c.Files}
	if c.Images != "" {
		all = append(all, c.Images)
	}
	return all
}
