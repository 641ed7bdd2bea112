package mutation

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestSwitch switches the mutants of one package in, and runs its tests: with
// all off they pass, and with a refusal skipped they do not.
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
	b := &Bench{Root: root, Dir: dir, Mutants: mutants, overlay: overlay, log: t.Output()}
	s := Suite{Name: "pkg/value/version", Dir: filepath.Join(root, "pkg", "value", "version"), Binary: filepath.Join(dir, "version.test"), Run: "."}
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-o", s.Binary, ".")
	build.Dir, build.Env = s.Dir, b.environ()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := b.learn(t.Context(), &s); err != nil {
		t.Fatalf("the tests fail with all mutants off: %v", err)
	}
	b.Suites = []Suite{s}
	operators := map[string]bool{}
	for _, m := range mutants {
		if operators[m.Operator] {
			continue
		}
		operators[m.Operator] = true
		r, err := b.Try(t.Context(), m, time.Minute)
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
