package git_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/git"
)

// TestBlame: each line is of the commit that wrote it; of what is not
// committed nothing is known.
func TestBlame(t *testing.T) {
	dir := t.TempDir()
	runGit := func(who string, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = []string{
			"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=" + who, "GIT_AUTHOR_EMAIL=" + who + "@example.test", "GIT_COMMITTER_NAME=bot", "GIT_COMMITTER_EMAIL=bot@example.test",
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	file := filepath.Join(dir, "docs", "a b.md")
	write := func(text string) []byte {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return []byte(text)
	}
	runGit("keeper", "init", "-q", "-b", "main")
	raw := write("one\n- [ ] two\nthree\n")
	known := func(content []byte, lines ...int) map[int]git.Blamed {
		t.Helper()
		blamed, err := git.Blame(t.Context(), file, content, lines)
		if err != nil {
			t.Fatal(err)
		}
		return blamed
	}
	if got := known(raw, 2); len(got) != 0 {
		t.Errorf("nothing is committed: %v", got)
	}
	runGit("keeper", "add", ".")
	runGit("keeper", "commit", "-q", "-m", "begin")
	first := runGit("keeper", "rev-parse", "HEAD")
	raw = write("one\n- [x] two\nthree\n")
	if got := known(raw, 2); len(got) != 0 {
		t.Errorf("the tick is not committed: %v", got)
	}
	runGit("pilot", "commit", "-q", "-a", "-m", "tick")
	second := runGit("pilot", "rev-parse", "HEAD")
	got := known(raw, 1, 2)
	if got[1] != (git.Blamed{Commit: first, Author: "keeper <keeper@example.test>"}) || got[2] != (git.Blamed{Commit: second, Author: "pilot <pilot@example.test>"}) || len(got) != 2 {
		t.Errorf("%v", got)
	}
	// What the repository configures runs nothing, and hides nobody.
	mark := filepath.Join(dir, "ran")
	runGit("keeper", "config", "diff.x.textconv", "touch "+mark+"; cat")
	runGit("keeper", "config", "blame.ignoreRevsFile", "ignored")
	if err := os.WriteFile(filepath.Join(dir, "ignored"), []byte(second+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".gitattributes"), []byte("*.md diff=x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	runGit("keeper", "add", ".")
	runGit("keeper", "commit", "-q", "-m", "configure")
	if got := known(raw, 2); got[2].Commit != second {
		t.Errorf("%v, want %s", got, second)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a program of the repository ran")
	}
	if got, err := git.Blame(t.Context(), filepath.Join(t.TempDir(), "x"), nil, []int{1}); got != nil || err != nil {
		t.Errorf("no repository: %v, %v", got, err)
	}
	if got := known(raw); got != nil {
		t.Errorf("no lines: %v", got)
	}
}
