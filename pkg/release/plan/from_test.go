package plan_test

import (
	"strings"
	"testing"
)

// TestFromShapes: the layouts of two tools fit into a file of few lines, and
// the plan of each is kept beside it.
func TestFromShapes(t *testing.T) {
	for name, lines := range map[string]int{"from-krel": 60, "from-goreleaser": 20} {
		text, p := golden(t, name)
		if n := strings.Count(text, "\n"); n > lines {
			t.Errorf("%s: %d lines, want at most %d", name, n, lines)
		}
		if !p.IsGiven() {
			t.Errorf("%s: it has steps", name)
		}
		listed(t, name, p)
	}
}
