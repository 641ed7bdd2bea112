package stories

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/report/explain"
)

// TestDocsCodes types the commands of docs/codes.md: each ends with its code and
// the code's exit status, and the same files, unchanged, are accepted.
func TestDocsCodes(t *testing.T) {
	s := published(t)
	want(t, s.Verify(t.Context(), "--download", "copy"), 0)
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "codes.md"))
	if err != nil {
		t.Fatal(err)
	}
	prepare := ""
	for line := range strings.Lines(string(raw)) {
		if typed, is := strings.CutPrefix(line, `    rm -rf "$HOME/try"`); is {
			prepare = `rm -rf "$HOME/try"` + strings.TrimSpace(typed)
		}
	}
	typed := func(t *testing.T, command string) (int, string) {
		t.Helper()
		home := t.TempDir()
		cmd := exec.CommandContext(t.Context(), "bash", "-c", prepare+" || exit 99\n"+command)
		cmd.Dir = s.Dir
		cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME="+s.Path("cache"), "PATH="+bin+":"+os.Getenv("PATH"))
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		_ = cmd.Run() // the status is compared
		return cmd.ProcessState.ExitCode(), said.String()
	}
	const whole = "k8s-verify-release v0.1.0 --profile profile.yaml"
	for _, twin := range []string{whole, whole + " --files copy --only files"} {
		if code, said := typed(t, twin); code != 0 {
			t.Fatalf("%s\nended with status %d:\n%s", twin, code, said)
		}
	}
	tried := 0
	for _, e := range explain.All() {
		if e.Try == "" {
			continue
		}
		tried++
		t.Run(string(e.Code), func(t *testing.T) {
			if !strings.Contains(string(raw), "    "+e.Try+"\n") {
				t.Error("the page does not show the command")
			}
			if code, said := typed(t, e.Try); code != e.Exit || !regexp.MustCompile(`\b`+string(e.Code)+`\b`).MatchString(said) {
				t.Errorf("%s\nended with status %d, want %d and %s:\n%s", e.Try, code, e.Exit, e.Code, said)
			}
		})
	}
	if tried < 60 {
		t.Errorf("only %d codes have a command", tried)
	}
}
