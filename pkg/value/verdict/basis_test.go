package verdict_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// proofs are what an acceptance rests on.
func proofs() []verdict.Proof {
	return []verdict.Proof{{Subject: "a", Role: "release", Bundle: digest.Of(digest.SHA256, []byte("bundle"))}}
}

// counted is a verdict in which everything that was required is counted.
func counted(basis verdict.Basis, proofs ...verdict.Proof) *verdict.Verdict {
	v := verdict.New("file a", noon())
	v.Counts, v.Basis, v.Proofs = verdict.Counts{Verified: 1, Required: 1}, basis, proofs
	return v
}

// TestAcceptanceNeedsAProof: what was counted accepts nothing by itself.
func TestAcceptanceNeedsAProof(t *testing.T) {
	officer := proofs()[0]
	officer.Role = "policy"
	rows := []struct {
		name     string
		v        *verdict.Verdict
		want     verdict.Outcome
		settled  verdict.Outcome
		headline string // the beginning of it, once settled
	}{
		{"a proof", counted(verdict.Signed, proofs()...), verdict.Accepted, verdict.Accepted, "OK file a: 1 of 1 object verified"},
		{"no proof", counted(verdict.Signed), verdict.Undecided, verdict.Refused, "REFUSED file a: without any proof"},
		{"a proof that names no evidence", counted(verdict.Signed, verdict.Proof{Subject: "a"}), verdict.Undecided, verdict.Refused, "REFUSED file a: without any proof"},
		{"an exception alone is signed", counted(verdict.Signed, officer), verdict.Undecided, verdict.Refused, "REFUSED file a: without any proof"},
		{"an exception beside a proof", counted(verdict.Signed, officer, proofs()[0]), verdict.Accepted, verdict.Accepted, "OK file a: 1 of 1 object verified"},
		{"a basis that nobody knows", counted("nothing"), verdict.Undecided, verdict.Refused, "REFUSED file a: without any proof"},
		{"a question that no signature answers", counted(verdict.Checked), verdict.Accepted, verdict.Accepted, "OK file a: 1 of 1 check passed"},
		{"unsigned, as the policy says", counted(verdict.InsecureUnsigned), verdict.Accepted, verdict.Accepted, "UNSIGNED file a: accepted, but nothing about it is signed"},
		{"unsigned beside a proof", counted(verdict.InsecureUnsigned, proofs()...), verdict.Accepted, verdict.Accepted, "UNSIGNED file a: accepted, but nothing about it is signed"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if got := r.v.Outcome(); got != r.want || (r.v.Err() == nil) != (r.want == verdict.Accepted) {
				t.Errorf("%s, %v, want %s", got, r.v.Err(), r.want)
			}
			r.v.Settle("a")
			r.v.Settle("a") // says it once
			if got := r.v.Outcome(); got != r.settled || !strings.HasPrefix(r.v.Headline(), r.headline) {
				t.Errorf("settled it is %s, %q, want %s, %q", got, r.v.Headline(), r.settled, r.headline)
			}
			if r.v.Unsigned() && r.v.Complete() {
				t.Error("unsigned, and called complete")
			}
		})
	}
}

// TestStoredVerdictsNeedAProof: a verdict that was stored before there was a
// basis is held to the strictest.
func TestStoredVerdictsNeedAProof(t *testing.T) {
	raw, err := json.Marshal(counted(verdict.Signed))
	if err != nil || strings.Contains(string(raw), "basis") {
		t.Fatalf("%s, %v", raw, err)
	}
	var stored verdict.Verdict
	if err := json.Unmarshal(raw, &stored); err != nil || stored.Err() == nil {
		t.Errorf("%v, %v", err, stored.Err())
	}
	raw, _ = json.Marshal(counted(verdict.InsecureUnsigned))
	if err := json.Unmarshal(raw, &stored); err != nil || !stored.Unsigned() {
		t.Errorf("%s: %v, %s", raw, err, stored.Headline())
	}
}

// TestUnsignedStaysUnsigned: an answer that becomes a part of another takes its
// weakness along, and one that accepts nothing has none to give.
func TestUnsignedStaysUnsigned(t *testing.T) {
	whole := counted(verdict.Signed, proofs()...)
	refused := counted(verdict.InsecureUnsigned)
	refused.Add(verdict.Find(verdict.Tampered, "b", "m"))
	whole.Include(*refused)
	whole.Include(*counted(verdict.Checked))
	if whole.Unsigned() || whole.Basis != verdict.Signed {
		t.Errorf("%q", whole.Basis)
	}
	whole.Include(*counted(verdict.InsecureUnsigned))
	if !whole.Unsigned() {
		t.Error("a part is unsigned, and the whole does not say so")
	}
	for _, v := range []*verdict.Verdict{counted(verdict.Signed, proofs()...), counted(verdict.Signed)} {
		proven := v.Proven()
		if v.SettleInsecureUnsigned(); v.Unsigned() == proven {
			t.Errorf("proven %t, unsigned %t", proven, v.Unsigned())
		}
	}
}
