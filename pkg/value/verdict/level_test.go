package verdict_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// one is the answer for one artifact.
func one(name string, level int, state string) verdict.Levels {
	l := verdict.Levels{Subject: name, Track: "v0.1", Level: level, Most: 4, Requirements: []verdict.Requirement{
		{ID: "a", State: "met", Why: "there", Evidence: []digest.Digest{digest.Of(digest.SHA256, []byte(name))}}, {ID: "b", Level: 2, State: state, Why: "of " + name},
	}}
	if state != "met" {
		l.Next = []string{"b"}
	}
	return l
}

// TestJoin: of several artifacts the lowest level and the worst answer remain,
// with how many meet it, the first with that answer, and a few digests.
func TestJoin(t *testing.T) {
	for _, row := range []struct {
		states                []string
		state, artifact, next string
		level, met            int
	}{
		{[]string{"met", "met"}, "met", "", "[]", 2, 2},
		{[]string{"met", "declared"}, "declared", "n1", "[b]", 1, 1},
		{[]string{"declared", "not implementable", "met"}, "not implementable", "n1", "[b]", 1, 1},
		{[]string{"not implementable", "not shown"}, "not shown", "n1", "[b]", 1, 0},
		{[]string{"not shown", "not met", "met", "not met"}, "not met", "n1", "[b]", 1, 1},
		{[]string{"met", "met", "met", "met", "not shown", "met"}, "not shown", "n4", "[b]", 1, 5},
		{[]string{"met", "what nobody knows", "not met"}, "what nobody knows", "n1", "[b]", 1, 1},
	} {
		var all verdict.Levels
		var parts []verdict.Levels
		for i, state := range row.states {
			level := 1
			if state == "met" {
				level = 2
			}
			parts = append(parts, one(fmt.Sprintf("n%d", i), level, state))
			all.Join(parts[i])
		}
		got := all.Requirements[1]
		if all.Artifacts != len(row.states) || all.Level != row.level || fmt.Sprint(all.Next) != row.next || got.State != row.state || got.Artifact != row.artifact || got.Met != row.met ||
			row.artifact != "" && got.Why != "of "+row.artifact {
			t.Errorf("%q: %+v", row.states, all)
		}
		if n := len(all.Requirements[0].Evidence); n != min(3, len(row.states)) {
			t.Errorf("%q: %d digests", row.states, n)
		}
		var twice verdict.Levels
		twice.Join(all)
		twice.Join(all)
		if twice.Artifacts != 2*all.Artifacts || twice.Requirements[1].Met != 2*row.met || all.Requirements[1].Met != row.met {
			t.Errorf("%q: joined twice, and not left alone: %+v %+v", row.states, twice, all)
		}
		if slices.ContainsFunc(parts, func(l verdict.Levels) bool { return l.Artifacts > 0 || l.Requirements[1].Artifact != "" }) {
			t.Errorf("%q: a part was changed: %+v", row.states, parts)
		}
	}
}

// TestJoinUnanswered: nothing is met by an artifact about which nothing is known,
// wherever in the order it comes.
func TestJoinUnanswered(t *testing.T) {
	for at := range 3 {
		var all verdict.Levels
		for i := range 3 {
			l := one(fmt.Sprintf("n%d", i), 2, "met")
			if i == at {
				l = verdict.Levels{Subject: l.Subject, Track: l.Track, Most: l.Most}
			}
			all.Join(l)
		}
		if all.Level != 0 || all.Artifacts != 3 || len(all.Requirements) != 2 {
			t.Errorf("%d: %+v", at, all)
		}
		for _, r := range all.Requirements {
			if r.State != "not shown" || r.Met != 2 || r.Artifact != fmt.Sprintf("n%d", at) || r.Title != "" && r.Why == "" {
				t.Errorf("%d: %+v", at, r)
			}
		}
	}
}
