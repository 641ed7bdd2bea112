package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestRootAge: how old a trust root may be is the policy's decision, and a root of
// unknown age is not young.
func TestRootAge(t *testing.T) {
	limited, err := policy.Parse([]byte(strings.Replace(text(t), "plan: require\n", "plan: require\nlimits: {trustRoot: 2160h}\n", 1)), nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name    string
		p       policy.Policy
		current time.Time
		stale   bool
		says    string
	}{
		{"90 days old (twin)", limited, now.AddDate(0, 0, -90), false, "the trust root is 90 days old; the policy allows 90 days"},
		{"91 days old", limited, now.AddDate(0, 0, -91), true, "the trust root is 91 days old; the policy allows 90 days"},
		{"of unknown age", limited, time.Time{}, true, "unknown"},
		{"of unknown age, without a limit (twin)", load(t), time.Time{}, false, ""},
	} {
		err := c.p.Root(false, c.current, now)
		if (err != nil) != c.stale || c.stale && code(err) != verdict.Stale {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := c.p.NewSession().RootAge(c.current, now); !strings.Contains(got, c.says) || (got == "") != (c.says == "") {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}
