package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestShippedPolicies loads every policy of the repository and demands the
// page that says what it refuses.
func TestShippedPolicies(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("..", "..", "policies", "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no policies: %v", err)
	}
	index, err := os.ReadFile(filepath.Join("..", "..", "policies", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(raw), "kind: Policy\n") {
			continue
		}
		p, err := Parse(raw, nil)
		if err != nil {
			t.Errorf("%s does not load: %v", name, err)
			continue
		}
		if p.Name() != name {
			t.Errorf("%s calls itself %q", name, p.Name())
		}
		page, err := os.ReadFile(strings.TrimSuffix(path, ".yaml") + ".md")
		if err != nil || !strings.HasPrefix(string(page), "# "+name+"\n") {
			t.Errorf("%s has no page of its own: %v", name, err)
		}
		if !strings.Contains(string(index), name+".yaml") {
			t.Errorf("policies/README.md does not list %s", name)
		}
	}
}
