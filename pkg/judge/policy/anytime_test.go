package policy

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestAtAnyTime: only the window of one role is set aside, and only in the copy.
func TestAtAnyTime(t *testing.T) {
	release, verifier := 0, 1
	q := asking(t, plan.Sums)
	for _, row := range []struct {
		name        string
		seat        int
		entry       entry
		by          int
		before, now verdict.Code
	}{
		{"while it may act (twin)", release, seats()[release].entry(), release, "", ""},
		{"after the end", release, seats()[release].entry().with("until", "2026-11-19"), release, verdict.IdentityWindow, ""},
		{"before it begins", release, seats()[release].entry().with("from", "2099-01-01"), release, verdict.IdentityWindow, ""},
		{"of another class", release, seats()[release].entry().with("classes", []string{"image"}), release, verdict.IdentityRole, verdict.IdentityRole},
		{"without the claim", release, seats()[release].entry().with("claims", map[string]string{"buildTrigger": "schedule"}), release, verdict.Claim, verdict.Claim},
		{"in another role", release, seats()[release].entry(), verifier, verdict.IdentityRole, verdict.IdentityRole},
	} {
		t.Run(row.name, func(t *testing.T) {
			p, err := Parse([]byte(court(t, row.seat, row.entry)), nil)
			if err != nil {
				t.Fatal(err)
			}
			f := saidBy(t, q, seats()[row.by].who(), seats()[release].kind, "")
			code := func(p Policy) verdict.Code {
				if err := say(p.actors.acts(f, Release, &q)); err != nil {
					return verdict.FindingOf("", err).Code
				}
				return ""
			}
			if now := code(Release.AtAnyTime(p)); now != row.now || code(p) != row.before {
				t.Errorf("%q at any time, %q by the policy", now, code(p))
			}
			if got := code(Role("verifier").AtAnyTime(p)); got != row.before {
				t.Errorf("the window of another role was set aside: %q", got)
			}
		})
	}
}

// TestWindow: an end within a day shows its time, because its day alone may be that of the
// signature that it refuses.
func TestWindow(t *testing.T) {
	for want, times := range map[string][2]string{
		"": {}, "until 2026-11-19": {"", "2026-11-19"}, "from 2026-11-19": {"2026-11-19"}, "from 2026-11-18 until 2026-11-19T18:24:15Z": {"2026-11-18T00:00:00Z", "2026-11-19T19:24:15+01:00"},
	} {
		e := seats()[0].entry()
		for i, key := range []string{"from", "until"} {
			if times[i] != "" {
				e = e.with(key, times[i])
			}
		}
		p, err := Parse([]byte(court(t, 0, e)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.actors.roles[Release][0].Window(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
