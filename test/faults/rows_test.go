package faults_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestEveryRowIsSomewhere holds ROWS.md against the sources: each row stands
// there once and in order, its answers are exit codes, and every test that it
// names exists.
func TestEveryRowIsSomewhere(t *testing.T) {
	page, err := os.ReadFile("ROWS.md")
	if err != nil {
		t.Fatal(err)
	}
	row, rows := 0, []string(nil)
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 || strings.HasPrefix(line, "| row") || strings.HasPrefix(line, "|---") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		next, err := strconv.Atoi(cells[0])
		if err != nil || next <= row {
			t.Errorf("row %s stands after row %d", cells[0], row)
		}
		row, rows = next, append(rows, cells[0])
		if reason, none := strings.CutPrefix(cells[3], "none: "); none {
			if len(reason) < 20 || cells[2] != "—" {
				t.Errorf("row %d: want a reason and no answer", row)
			}
			continue
		}
		for answer := range strings.FieldsSeq(cells[2]) {
			if !slices.Contains([]string{"0", "1", "2", "3"}, answer) {
				t.Errorf("row %d: %q is no answer", row, answer)
			}
		}
		for where := range strings.SplitSeq(cells[3], "; ") {
			file, name, _ := strings.Cut(where, " ")
			source, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
			if err != nil || !strings.Contains(string(source), "\nfunc "+name+"(t *testing.T)") {
				t.Errorf("row %d: there is no %s, %v", row, where, err)
			}
		}
	}
	if len(rows) != 43 {
		t.Errorf("%d rows, want 43: %q", len(rows), rows)
	}
}

// What the environment says wrongly is said at once, and not by each request.
func TestPatienceThatIsNone(t *testing.T) {
	t.Parallel()
	for text, code := range map[string]int{"soon": 2, "90": 2, "-1s": 2, "0s": 2, "90s": 0, "": 0} {
		r := runWith(t, []string{"WAYBILL_PATIENCE=" + text}, "waybill", "schema", "release")
		want(t, r, code)
		if code != 0 && !strings.Contains(r.Stderr, "WAYBILL_PATIENCE") {
			t.Errorf("%q: it does not say what is wrong:\n%s", text, r.Stderr)
		}
	}
}
