package stories

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/scene"
)

// readme compares a transcript of the README, by its number, with what the command
// prints. An ellipsis stands for what differs from run to run, and a line with
// nothing else for any lines.
func readme(t *testing.T, s *scene.Scene, number int) {
	page, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(page), "-->\n```console\n$ ")
	if number >= len(parts) {
		t.Fatalf("README.md has no console transcript %d", number)
	}
	transcript, _, closed := strings.Cut(parts[number], "```")
	if !closed {
		t.Fatal("a transcript in README.md does not end")
	}
	command, wanted, _ := strings.Cut(transcript, "\n")
	r := s.Run(t.Context(), strings.Fields(command)...)
	want(t, r, 0)
	pattern := strings.ReplaceAll(regexp.QuoteMeta(wanted), "\n  …\n", "\n(?:.*\n)*")
	pattern = strings.ReplaceAll(pattern, "…", "[^\n]*")
	if !regexp.MustCompile(`\A` + pattern + `\z`).MatchString(r.Stdout) {
		t.Errorf("README.md shows\n%s\nbut the command prints\n%s", wanted, r.Stdout)
	}
}
