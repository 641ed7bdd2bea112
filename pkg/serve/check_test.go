package serve

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// decisions are entries of the record, each of another caller.
func decisions(n int) (all []api.Entry) {
	for i := range n {
		all = append(all, api.Entry{Time: time.Unix(int64(i), 0), Message: api.Decided, Principal: fmt.Sprintf("caller-%d", i), Outcome: "accepted"})
	}
	return all
}

// checked is what the check of a log says.
func checked(t *testing.T, log string) *verdict.Verdict {
	t.Helper()
	var c RecordCheck
	if err := c.Read("log", strings.NewReader(log)); err != nil {
		t.Fatal(err)
	}
	return c.Verdict(time.Unix(0, 0))
}

// TestRecordGoesOn: a record that could not be written goes on as another one,
// which names the end of the first: without the first it is refused (AUDIT_CHAIN).
func TestRecordGoesOn(t *testing.T) {
	out := &brief{}
	r := record{out: out, clock: time.Now, turn: make(chan struct{}, 1)}
	if err := r.add(t.Context(), decisions(2)...); err != nil {
		t.Fatal(err)
	}
	first := out.Len()
	out.drop = 9
	if err := r.add(t.Context(), decisions(1)...); verdict.OutcomeOf(err) != verdict.Unavailable {
		t.Fatalf("a line that was not written: %v", err)
	}
	second := out.Len()
	out.drop = 0
	if err := r.add(t.Context(), decisions(2)...); err != nil {
		t.Fatal(err)
	}
	whole := out.String()
	if v := checked(t, whole); v.Outcome() != verdict.Accepted || v.Counts.Verified != 6 || !slices.ContainsFunc(v.Notes, func(n string) bool { return strings.Contains(n, "decisions: 4") }) {
		t.Errorf("%s, %q:\n%s", v.Headline(), v.Notes, whole)
	}
	if v := checked(t, whole[second:]); v.Outcome() != verdict.Refused || v.Findings[0].Code != "AUDIT_CHAIN" {
		t.Errorf("without the first: %s", v.Headline())
	}
	if v := checked(t, whole[:first]); v.Outcome() != verdict.Accepted || v.Counts.Verified != 3 {
		t.Errorf("the first alone: %s, %s", v.Headline(), v.Counts)
	}
}

// TestRecordOfManyCallers: the counts of a record are exact, and name a thousand
// callers at most; the others are counted together.
func TestRecordOfManyCallers(t *testing.T) {
	for callers, want := range map[int]string{maxKinds: "by caller: caller-0 1,", maxKinds + 7: "by caller: others 7, caller-0 1,"} {
		var log bytes.Buffer
		r := record{out: &log, clock: time.Now, turn: make(chan struct{}, 1)}
		if err := r.add(t.Context(), decisions(callers)...); err != nil {
			t.Fatal(err)
		}
		if v := checked(t, log.String()); v.Outcome() != verdict.Accepted || !slices.ContainsFunc(v.Notes, func(n string) bool { return strings.HasPrefix(n, want) }) {
			t.Errorf("%d callers: %s, %.200q", callers, v.Headline(), v.Notes)
		}
	}
}

// TestRecordWithManyBreaks: each break is counted, and the first fifty are listed
// (AUDIT_CHAIN).
func TestRecordWithManyBreaks(t *testing.T) {
	for breaks, want := range map[int]string{maxBreaks: "", maxBreaks + 1: "further breaks, not listed: 1"} {
		var log bytes.Buffer
		r := record{out: &log, clock: time.Now, turn: make(chan struct{}, 1)}
		if err := r.add(t.Context(), decisions(2*breaks)...); err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(log.String(), "\n")
		var left []string
		for i, line := range lines {
			if i%2 == 0 {
				left = append(left, line)
			}
		}
		v := checked(t, strings.Join(left, ""))
		said := slices.ContainsFunc(v.Notes, func(n string) bool { return n == want })
		if v.Outcome() != verdict.Refused || len(v.Findings) != maxBreaks || v.Findings[0].Code != "AUDIT_CHAIN" || said != (want != "") || v.Counts.Verified != 1 {
			t.Errorf("%d breaks: %d findings, %s, %q", breaks, len(v.Findings), v.Counts, v.Notes)
		}
	}
}
