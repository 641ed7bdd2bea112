package cel_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/policy"
)

// FuzzCompile reads and asks rules that nobody wrote. None may panic, here or
// where CEL catches it, none may take more than a second, an error is never a
// yes, and what is asked twice is answered twice the same.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		typicalRule,
		`stage == "release" && version.startsWith("v1.") || !has(artifact.commit)`,
		`evidence.filter(e, e.role in ["builder", "release"]).size() >= 2 ? time < timestamp("2027-01-01T00:00:00Z") : 1 == 2`,
		`evidence.exists_one(e, e.claims["runnerEnvironment"] == r'\x' && time - e.signed < duration("1h"))`,
		`evidence.all(a, evidence.exists(b, [1, -2, 3].exists(c, c + size(a.kind) == int(b.subject))))`,
		`-9223372036854775808 - size(evidence) == 0x7f && 1.5e300 == 2u`, `b"a" == "\ud800"`, `.artifact.name == "\x00"`,
		`artifact == artifact`, `evidence + evidence == evidence`, `google.protobuf.Any`, `[[[[]]]]`, `((((((((((`,
	} {
		f.Add(seed)
	}
	c := compiler(f)
	f.Fuzz(func(t *testing.T, text string) {
		rule, err := c.Compile(text)
		if _, again := c.Compile(text); fmt.Sprint(err) != fmt.Sprint(again) {
			t.Fatalf("%v, and again %v", err, again)
		}
		switch {
		case err == nil && rule == nil, err != nil && rule != nil:
			t.Fatalf("%v, %v; want a rule or an error", rule, err)
		case err != nil && (strings.Contains(err.Error(), "the parser failed") || strings.Contains(err.Error(), "internal")):
			t.Fatalf("CEL gave up: %v", err)
		case err != nil:
			if line, column := at(t, err); line < 1 || column < 1 || line > strings.Count(text, "\n")+1 || column > len(text)+1 {
				t.Fatalf("%v is not in the rule", err)
			}
		default:
			ask(t, rule)
		}
	})
}

// ask asks a rule of something, of nothing, and of something again.
func ask(t *testing.T, rule policy.Expression) {
	t.Helper()
	first, err := rule.Holds(view())
	if err != nil && strings.Contains(err.Error(), "internal error") {
		t.Fatalf("CEL gave up: %v", err)
	}
	nothing, errNothing := rule.Holds(policy.View{Time: now})
	again, errAgain := rule.Holds(view())
	if first && err != nil || nothing && errNothing != nil || first != again || (err == nil) != (errAgain == nil) {
		t.Fatalf("%v, %v; of nothing %v, %v; again %v, %v", first, err, nothing, errNothing, again, errAgain)
	}
}
