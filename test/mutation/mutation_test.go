package mutation

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// TestSwitch switches the mutants of one package in, and runs its tests: with
// all off they pass, and with a refusal skipped they do not. What was learned is
// learned once.
func TestSwitch(t *testing.T) {
	root, dir := "../..", t.TempDir()
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	mutants, overlay, err := Switch(root, dir, []string{"./pkg/value/version"})
	if err != nil {
		t.Fatal(err)
	}
	b := &Bench{Root: root, Dir: dir, Mutants: mutants, overlay: overlay, Log: t.Output()}
	if err := set(dir, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time all is known
		b.Suites = nil
		if err := b.module(t.Context(), root, regexp.MustCompile("^pkg/value/version$")); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.Suites) != 1 || len(b.Suites[0].Tests) < 3 {
		t.Fatalf("suites %+v, want one with its tests", b.Suites)
	}
	operators := map[string]bool{}
	for _, m := range mutants {
		if operators[m.Operator] {
			continue
		}
		operators[m.Operator] = true
		r, err := b.Try(t.Context(), dir, m, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: noticed by %q", m, r.Noticed)
		if r.Noticed == "" && m.Operator == "refusal skipped" {
			t.Errorf("%s: not noticed", m)
		}
	}
	if !operators["refusal skipped"] || !operators["negated"] {
		t.Errorf("operators %v, want refusals among them", operators)
	}
	if said, err := os.ReadFile(filepath.Join(dir, "active")); err != nil || string(said) != "0" {
		t.Errorf("after a mutant %q is on, %v", said, err)
	}
}
