package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/produce/lock"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestPinnedTools: a step runs the programs that were reviewed, or nothing.
func TestPinnedTools(t *testing.T) {
	dir := t.TempDir()
	const body = "#!/bin/sh\n"
	if err := os.WriteFile(filepath.Join(dir, "cross"), []byte(body), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	sum := digest.Of(digest.SHA256, []byte(body))
	rows := []struct {
		name string
		pin  plan.ToolLock
		code verdict.Code // empty when it is accepted
	}{
		{"the program that is pinned", plan.ToolLock{Program: "cross", Digest: sum}, ""},
		{"the program that is pinned for this platform", plan.ToolLock{Program: "cross", Platforms: map[string]string{lock.Host: sum.String(), "plan9/mips": "sha256:" + strings.Repeat("0", 64)}}, ""},
		{"another program on this platform", plan.ToolLock{Program: "cross", Platforms: map[string]string{"plan9/mips": sum.String(), lock.Host: "sha256:" + strings.Repeat("0", 64)}}, verdict.LockStale},
		{"a program that is pinned for another platform", plan.ToolLock{Program: "cross", Platforms: map[string]string{"plan9/mips": sum.String()}}, verdict.LockStale},
		{"a program that is in no toolchain", plan.ToolLock{Program: "cross", Toolchain: "go1.26.8", Platforms: map[string]string{lock.Host: sum.String()}}, verdict.Usage},
		{"another program", plan.ToolLock{Program: "cross", Digest: digest.Of(digest.SHA256, nil)}, verdict.LockStale},
		{"a program without a digest", plan.ToolLock{Program: "cross"}, verdict.LockStale},
		{"a program that is not there", plan.ToolLock{Program: "gone", Digest: sum}, verdict.Usage},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			tools, err := checkTools(plan.Lock{Tools: map[string]plan.ToolLock{"cross": r.pin}}, nil)
			if r.code != "" {
				if err == nil || verdict.FindingOf("", err).Code != r.code || tools != nil {
					t.Errorf("%v, %v, want %s", tools, err, r.code)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			f := fetched{tools: tools}
			step, other := plan.Step{Tools: []string{"cross"}}, plan.Step{Tools: []string{"other"}}
			got, err := f.toolsOf(step)
			if err != nil || len(got) != 1 || got[0].Name != "tool cross" || got[0].Digest["sha256"] != sum.Hex() || !f.pinned(step) {
				t.Errorf("provenance will name %v, %v, pinned %t", got, err, f.pinned(step))
			}
			if none, err := f.toolsOf(other); err != nil || len(none) != 0 || f.pinned(other) {
				t.Errorf("a step with another tool used %v, %v, pinned %t", none, err, f.pinned(other))
			}
		})
	}
}

// TestToolsThatAreNotPinned: what a step runs is named in its provenance even
// where nobody locked it, and is not called pinned.
func TestToolsThatAreNotPinned(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"go/bin/go", "go/pkg/tool/linux/compile", "go/VERSION"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", filepath.Join(dir, "go", "bin"))
	steps := []plan.Step{{Run: []string{"go", "build"}}, {Run: []string{"make"}, Tools: []string{"make"}}, {Tools: []string{"archiver"}}}
	seen := func() provenance.Resource {
		t.Helper()
		tools, err := checkTools(plan.Lock{}, steps)
		if err != nil || len(tools) != 1 || tools["go"].pinned {
			t.Fatalf("%v, %v, want go alone, not pinned", tools, err)
		}
		f := fetched{tools: tools}
		f.startHashing(steps[0])
		list, err := f.toolsOf(steps[0])
		if err != nil || len(list) != 1 {
			t.Fatalf("%v, %v", list, err)
		}
		return list[0]
	}
	was := seen()
	if len(was.Digest["dirHash"]) != 64 || was.Digest["sha256"] != digest.Of(digest.SHA256, []byte("go/bin/go")).Hex() {
		t.Errorf("digests %v", was.Digest)
	}
	// The compiler is another, and the program that starts it is the same.
	if err := os.WriteFile(filepath.Join(dir, "go", "pkg", "tool", "linux", "compile"), []byte("other"), 0o755); err != nil {
		t.Fatal(err)
	}
	if is := seen(); is.Digest["dirHash"] == was.Digest["dirHash"] || is.Digest["sha256"] != was.Digest["sha256"] {
		t.Errorf("digests %v, were %v", is.Digest, was.Digest)
	}
}
