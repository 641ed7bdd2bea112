package build

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/verdict"
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
		{"another program", plan.ToolLock{Program: "cross", Digest: digest.Of(digest.SHA256, nil)}, verdict.LockStale},
		{"a program without a digest", plan.ToolLock{Program: "cross"}, verdict.LockStale},
		{"a program that is not there", plan.ToolLock{Program: "gone", Digest: sum}, verdict.Usage},
		{"an image", plan.ToolLock{Image: "registry.example.test/cross", Digest: sum}, verdict.ConfigParse},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			tools, err := pinnedTools(plan.Lock{Tools: map[string]plan.ToolLock{"cross": r.pin}})
			if r.code != "" {
				if err == nil || verdict.FindingOf("", err).Code != r.code || tools != nil {
					t.Errorf("%v, %v, want %s", tools, err, r.code)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			run := &run{tools: tools}
			got := run.toolsOf(plan.Step{Tools: []string{"cross"}})
			if len(got) != 1 || got[0].Name != "tool cross" || got[0].Digest["sha256"] != sum.Hex() {
				t.Errorf("provenance will name %v", got)
			}
			if none := run.toolsOf(plan.Step{}); len(none) != 0 {
				t.Errorf("a step without tools used %v", none)
			}
		})
	}
}
