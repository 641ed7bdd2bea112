package stories

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/scene"
)

// readme holds the README's transcript against what the command prints; an
// ellipsis stands for what differs from run to run.
func readme(t *testing.T, s *scene.Scene) {
	page, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```console\n$ ")
	transcript, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("README.md has no console transcript")
	}
	command, wanted, _ := strings.Cut(transcript, "\n")
	r := s.Run(t.Context(), strings.Fields(command)...)
	want(t, r, 0)
	pattern := strings.ReplaceAll(regexp.QuoteMeta(wanted), "…", "[^\n]*")
	if !regexp.MustCompile(`\A` + pattern + `\z`).MatchString(r.Stdout) {
		t.Errorf("README.md shows\n%s\nbut the command prints\n%s", wanted, r.Stdout)
	}
}
