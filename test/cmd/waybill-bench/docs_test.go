package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/bench"
)

// The page, the picture and the record say the same; each missed goal has its
// reason; and what commands name can be measured. With WAYBILL_GOLDEN=write the
// page and the picture are written from the record.
func TestDocsPerformance(t *testing.T) {
	const root = "../../.."
	read := func(path string) string {
		raw, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	summary, err := bench.ReadSummary(filepath.Join(root, recorded))
	if err != nil || len(summary.Lines) == 0 {
		t.Fatalf("the record has %d lines: %v", len(summary.Lines), err)
	}
	if os.Getenv("WAYBILL_GOLDEN") == "write" {
		if err := writePage(root, summary); err != nil {
			t.Fatal(err)
		}
	}
	text := read(page)
	if want, err := summary.Page(text); err != nil || want != text {
		t.Errorf("%s is not what %s says; make bench BENCH=-record writes both: %v", page, recorded, err)
	}
	if read(picture) != bench.Draw(summary.Curves) {
		t.Errorf("%s is not what %s says", picture, recorded)
	}
	_, reasons, _ := strings.Cut(text, "\n## What is missed, and why\n")
	for _, line := range summary.Lines {
		if named := strings.Contains(reasons, "**"+line.Goal+"**"); !line.Met() && !named {
			t.Errorf("%s, %s, is missed, and the page does not say why", line.Goal, line.Work)
		}
		if !slices.Contains(names(), line.Part) {
			t.Errorf("%s is of %q, which cannot be measured", line.Goal, line.Part)
		}
	}
	for _, only := range regexp.MustCompile(`-only ([a-z,]+)`).FindAllStringSubmatch(text, -1) {
		if _, err := parse([]string{"-only", only[1]}); err != nil {
			t.Errorf("%s: %v", only[0], err)
		}
	}
}
