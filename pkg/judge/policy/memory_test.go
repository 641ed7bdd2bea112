package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// changed reads the largest shipped policy with one text in another's place.
func changed(t *testing.T, raw []byte, old, text string) *Policy {
	t.Helper()
	if !strings.Contains(string(raw), old) {
		t.Fatalf("the policy does not say %q", old)
	}
	p, err := Parse([]byte(strings.ReplaceAll(string(raw), old, text)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

// codesOf are the findings about one artifact, empty when it is accepted.
func codesOf(p *Policy, b bench) []string {
	var codes []string
	for _, r := range (&judgement{policy: p, q: b.q, facts: b.facts}).decide() {
		if r.mode == Require && !r.met {
			codes = append(codes, string(verdict.FindingOf("", r.err).Code)+": "+r.err.Error())
		}
	}
	return codes
}

// forgetful is the same with facts of which nothing is remembered.
func forgetful(b bench) bench {
	facts := make([]*fact, len(b.facts))
	for i, f := range b.facts {
		said := saying{
			kind: f.kind, signedAt: f.signedAt, logIndex: f.logIndex, log: f.log, bundle: f.bundle, said: f.said,
			covers: f.covers, coversBytes: f.coversBytes, reached: f.reached,
		}
		if !f.said.IsZero() {
			said.covers = f.said.Names
		}
		facts[i] = &fact{who: f.who, key: f.key, claims: f.claims, saying: &said}
	}
	return bench{b.q, facts}
}

// An index answers as the statement does, for names that stand in it once,
// twice and not at all.
func TestIndexAnswersAsTheStatement(t *testing.T) {
	a, b, c := digest.SetOf([]byte("a")), digest.SetOf([]byte("b")), digest.SetOf([]byte("c"))
	weak := digest.Set{SHA256: c.SHA256}
	var subjects []string
	for _, one := range []intoto.Subject{{Name: "x", Digests: a}, {Name: "y", Digests: b}, {Name: "x", Digests: b}, {Name: "x", Digests: weak}, {Name: "z", Digests: a}} {
		digests, err := json.Marshal(one.Digests.Map())
		if err != nil {
			t.Fatal(err)
		}
		subjects = append(subjects, fmt.Sprintf(`{"name":%q,"digest":%s}`, one.Name, digests))
	}
	said, err := intoto.ParseOpen(fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[%s],"predicateType":"https://example.test/said/v1","predicate":{"a":1}}`, strings.Join(subjects, ",")))
	if err != nil {
		t.Fatal(err)
	}
	i, yes := indexOf(said), 0
	for _, name := range []string{"x", "y", "z", "w", ""} {
		for _, bytes := range []digest.Set{a, b, c, weak, {SHA256: a.SHA256, SHA512: b.SHA512}, {}} {
			if got, want := i.names(name, bytes), said.Names(name, bytes); got != want {
				t.Errorf("%q of %v: %t, the statement says %t", name, bytes, got, want)
			} else if got {
				yes++
			}
		}
	}
	if yes != 6 {
		t.Errorf("%d yes, want 6", yes)
	}
	for d, want := range map[digest.Digest]bool{a.SHA256: true, b.SHA512: true, c.SHA256: true, c.SHA512: false, {}: false} {
		if i.has(d) != want {
			t.Errorf("%v: %t", d, !want)
		}
	}
}

// What is remembered of a statement that was accepted must not be taken for
// an answer to another question: each row differs in one fact, and is refused
// in the same words as if it had been asked first.
func TestNothingIsRememberedForAnotherQuestion(t *testing.T) {
	raw, accepts := largest(t)
	p := changed(t, raw, "kind: Policy", "kind: Policy")
	if len(p.build.params) == 0 {
		t.Fatal("the policy knows no parameters")
	}
	all := wholeRelease(t, accepts)
	first, second, elsewhere := all[0], all[1], all[perStep]
	first.q.Commit = accepts.Ask.Commit
	ask := func(change func(*bench)) bench {
		other := bench{first.q, slices.Clone(first.facts)}
		change(&other)
		return other
	}
	rows := []struct {
		name   string
		policy *Policy
		asked  bench
		code   verdict.Code
	}{
		{"another version", p, ask(func(b *bench) { b.q.Version = "v9.9.9" }), verdict.SourceRef},
		{"another commit", p, ask(func(b *bench) { b.q.Commit = strings.Repeat("0", 40) }), verdict.SourceCommit},
		{"another name", p, ask(func(b *bench) { b.q.Subject = "bin/none" }), verdict.NotBound},
		{"other bytes", p, ask(func(b *bench) { b.q.Bytes = digest.SetOf([]byte("other")) }), verdict.NotBound},
		{"the bytes of another artifact of the step", p, ask(func(b *bench) { b.q.Bytes = second.q.Bytes }), verdict.NotBound},
		{"an artifact of another step", p, ask(func(b *bench) { b.q, b.facts[0] = elsewhere.q, elsewhere.facts[0] }), verdict.NotBound},
		{"another class", p, ask(func(b *bench) { b.q.Class = plan.Image }), verdict.Unsigned},
		{"a stranger's word", p, ask(func(b *bench) { f := b.facts[1].as(nobody()); b.facts[1] = &f }), verdict.Identity},
		{"a policy of another source", changed(t, raw, `source: {repository: "`, `source: {repository: "git+https://other.invalid/`), first, verdict.SourceRepo},
		{"a policy of other builders", changed(t, raw, "builder/v1#isolated", "builder/v1#other"), first, verdict.Builder},
		{"a policy of other kinds of build", changed(t, raw, "build-step/v1]", "build-step/v2]"), first, verdict.BuildType},
		{"a policy of another parameter", changed(t, raw, "{name: step, any: true}", "{name: step, is: other}"), first, verdict.ParamValue},
	}
	// Asked often enough for the subjects to be indexed, and between all rows.
	accepted := func() {
		t.Helper()
		for range fewLooks {
			if codes := codesOf(p, first); len(codes) > 0 {
				t.Fatalf("refused: %q", codes)
			}
		}
	}
	accepted()
	if m := first.facts[1].memory; len(m.memoized) == 0 || m.index == nil {
		t.Fatalf("nothing is remembered, so that nothing is tested: %d, %v", len(m.memoized), m.index)
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			for range 2 {
				got, want := codesOf(r.policy, r.asked), codesOf(r.policy, forgetful(r.asked))
				if !slices.Equal(got, want) {
					t.Errorf("got %q, and asked first it is %q", got, want)
				}
				if !slices.ContainsFunc(got, func(c string) bool { return strings.HasPrefix(c, string(r.code)+": ") }) {
					t.Errorf("got %q, want %s", got, r.code)
				}
			}
		})
		accepted()
	}
}
