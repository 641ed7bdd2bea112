package arch_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// plainWrite is a call that writes or names a file without making it durable.
var plainWrite = regexp.MustCompile(`\bos\.(WriteFile|Rename|Create|CreateTemp|OpenFile)\(`)

// TestArchStateIsDurable: packages that write to a state directory do it through
// pkg/backend/store and pkg/backend/journal, which make durable what they write.
func TestArchStateIsDurable(t *testing.T) {
	seen := 0
	for _, pkg := range []string{"pkg/produce/workspace", "pkg/produce/seal", "pkg/pipeline", "pkg/produce/attest", "pkg/pipeline/promote", "pkg/judge/channel", "pkg/produce/sign"} {
		files, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pkg, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			seen++
			if call := plainWrite.FindString(string(raw)); call != "" {
				t.Errorf("%s calls %s…): write with Workspace.Keep, store.Move or a journal", file, call)
			}
		}
	}
	if seen < 50 {
		t.Errorf("%d files were read", seen)
	}
	if !plainWrite.MatchString("\tf, err := os.CreateTemp(dir, name)") {
		t.Error("the pattern finds nothing")
	}
}
