package gate

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// levelRule is a rule that accepts what it knows a level of.
type levelRule map[string]int

func (l levelRule) Decide(i item) *verdict.Verdict {
	name := i.question.Subject
	v := verdict.New(name, time.Time{})
	v.Counts.Required = 1
	level, known := l[name]
	if !known {
		v.Add(verdict.Find(verdict.Unsigned, name, "unsigned"))
		return v
	}
	v.Counts.Verified = 1
	v.Proofs = []verdict.Proof{{Subject: name, Bundle: digest.Of(digest.SHA256, []byte(name))}}
	v.Levels = []verdict.Levels{{}}
	v.Least = &verdict.Least{Level: level, Artifacts: 1, Path: []string{name}}
	v.Note("about %s", name)
	return v
}

// TestJudgeCountsItems: each item that is asked about is counted once, and is
// verified only when the rule accepts it.
func TestJudgeCountsItems(t *testing.T) {
	one := func(name string, change func(*item)) item {
		i := item{question: policy.Question{Subject: name}}
		if change != nil {
			change(&i)
		}
		return i
	}
	rows := []struct {
		name               string
		items              []item
		required, verified int
		level              int // -1: none
		outcome            verdict.Outcome
	}{
		{"nothing", nil, 0, 0, -1, verdict.Undecided},
		{"all", []item{one("a", nil), one("b", nil)}, 2, 2, 1, verdict.Accepted},
		{"one unsigned", []item{one("a", nil), one("c", nil)}, 2, 1, -1, verdict.Refused},
		{"one unknown", []item{one("a", nil), one("b", func(i *item) { i.err = errors.New("boom") })}, 2, 1, -1, verdict.Internal},
		{"one unreachable", []item{one("a", nil), one("b", func(i *item) { i.err = &verdict.UnavailableError{Place: "x", Op: "y", Err: errors.New("z")} })}, 2, 1, -1, verdict.Unavailable},
		{"one that follows", []item{one("a", nil), one("c", func(i *item) { i.follows = true })}, 2, 2, -1, verdict.Accepted},
		{"only one that follows", []item{one("c", func(i *item) { i.follows = true })}, 1, 1, -1, verdict.Undecided},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			j := terms{now: time.Unix(0, 0)}.beginBy("q", levelRule{"a": 2, "b": 1})
			j.addCounted(facts{items: row.items}, "")
			v := j.endCounted()
			if v.Counts.Required != row.required || v.Counts.Verified != row.verified || v.Outcome() != row.outcome {
				t.Errorf("%s, %s: %v", v.Outcome(), v.Counts, v.Findings)
			}
			if (v.Least == nil) != (row.level < 0) || v.Least != nil && (v.Least.Level != row.level || v.Least.Artifacts != row.required) {
				t.Errorf("least level %+v", v.Least)
			}
			if answered := slices.ContainsFunc(v.Notes, func(n string) bool { return n == "about a" }); answered != (len(v.Levels) > 0) || answered != (row.verified > 0 && row.outcome != verdict.Undecided) {
				t.Errorf("notes %q, levels %v", v.Notes, v.Levels)
			}
		})
	}
}

// TestMergedNamesOnePolicy: answers by several policies are by none.
func TestMergedNamesOnePolicy(t *testing.T) {
	by := func(policy string) *verdict.Verdict {
		v := verdict.New("q", time.Unix(0, 0))
		v.Policy = digest.Of(digest.SHA256, []byte(policy))
		return v
	}
	if v := Several("q", by("one"), by("one")); v.Policy != by("one").Policy {
		t.Errorf("policy %s", v.Policy)
	}
	if v := Several("q", by("one"), by("two"), by("one")); !v.Policy.IsZero() {
		t.Errorf("policy %s", v.Policy)
	}
}
