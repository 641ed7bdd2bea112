package gate

import (
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestExceptedOfWhatIsCounted: an exception of something that is not asked about does
// not stand in for something that is, about which nothing is known.
func TestExceptedOfWhatIsCounted(t *testing.T) {
	decide := func(counts ...string) *verdict.Verdict {
		j := terms{now: time.Unix(0, 0)}.beginBy("q", levelRule{})
		f := facts{
			spoiled: []string{"platform"},
			proofs:  []verdict.Proof{{Subject: "manifest", Bundle: digest.Of(digest.SHA256, nil)}},
			counted: []counted{{name: "manifest"}},
		}
		for _, name := range counts {
			f.counted = append(f.counted, counted{name: name})
		}
		f.refuse(verdict.Find(verdict.Unsigned, "index", "unsigned"), verdict.Find(verdict.NoProvenance, "elsewhere", "not asked about"))
		j.addFacts(f)
		j.count()
		j.v.SetAside([]string{"index", "elsewhere"}, func(verdict.Finding) (verdict.Waiver, bool) {
			return verdict.Waiver{Kind: verdict.ByException, ID: "x", Reason: "y", By: "z"}, true
		})
		j.v.Counts.Excepted = j.excepted()
		return j.v
	}
	if v := decide("index", "platform"); v.Outcome() == verdict.Accepted {
		t.Errorf("the platform is not judged: %s %v", v.Headline(), v.Counts)
	}
	if v := decide("index"); v.Outcome() != verdict.Accepted || v.Counts.Excepted != 1 {
		t.Errorf("all that is counted is excepted: %s %v", v.Headline(), v.Counts)
	}
}
