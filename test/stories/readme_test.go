package stories

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/scene"
)

// transcript compares the transcript of a page, the block below a comment, with
// what the command prints. An ellipsis stands for what differs from run to run,
// and a line with nothing else for any lines.
func transcript(t *testing.T, s *scene.Scene, name string) {
	page, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "-->\n```console\n$ ")
	text, _, closed := strings.Cut(text, "```")
	if !found || !closed {
		t.Fatalf("%s has no transcript, or one that does not end", name)
	}
	command, wanted, _ := strings.Cut(text, "\n")
	as := *s
	as.Verbose = false
	r := as.Run(t.Context(), strings.Fields(command)...)
	want(t, r, 0)
	pattern := strings.ReplaceAll(regexp.QuoteMeta(wanted), "\n  …\n", "\n(?:.*\n)*")
	pattern = strings.ReplaceAll(pattern, "…", "[^\n]*")
	if !regexp.MustCompile(`\A` + pattern + `\z`).MatchString(r.Stdout) {
		t.Errorf("%s shows\n%s\nbut the command prints\n%s", name, wanted, r.Stdout)
	}
}
