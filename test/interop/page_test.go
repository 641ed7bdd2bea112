package interop

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

// page is where the matrix stands for people: what the last run of all cells
// said.
const page = "MATRIX.md"

var update = flag.Bool("update", false, "write what was found into "+page)

// onPage prints a table, and holds the page's section of that name against it. A
// table of which not every cell was run, or that failed, is only printed.
func onPage(t *testing.T, section string, answers table) {
	t.Helper()
	t.Logf("\n%s", answers)
	if t.Failed() || !answers.whole() {
		return
	}
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+section+" -->\n", "<!-- end -->\n"
	head, rest, found := strings.Cut(string(raw), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no section %q", page, section)
	}
	whole := head + begin + answers.markdown() + end + tail
	switch {
	case whole == string(raw):
	case !*update:
		t.Errorf("%s says something else of %q than what was found; go test ./interop -update writes it", page, section)
	default:
		if err := os.WriteFile(page, []byte(whole), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// whole reports whether every cell was run.
func (t table) whole() bool {
	for _, row := range t.rows {
		if row[2] == "" {
			return false
		}
	}
	return len(t.rows) > 0
}

func (t table) markdown() string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.head)
	fmt.Fprintf(&b, "|%s\n", strings.Repeat("---|", len(t.head)))
	for _, row := range t.rows {
		line(row)
	}
	return b.String()
}
