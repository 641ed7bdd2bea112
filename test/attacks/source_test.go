package attacks

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// inRepository runs git as somebody who may write to the repository.
func inRepository(t testing.TB, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=Mallory", "GIT_AUTHOR_EMAIL=m@evil.example", "GIT_COMMITTER_NAME=Mallory", "GIT_COMMITTER_EMAIL=m@evil.example")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// TestBuildSources: a source that is not what was committed, or no longer what
// was resolved, is not built, and nothing is signed for it.
func TestBuildSources(t *testing.T) {
	w := theWorld(t)
	tag := w.version.String()
	write := func(name string) func(testing.TB, string) {
		return func(t testing.TB, dir string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("other\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	run := func(args ...string) func(testing.TB, string) {
		return func(t testing.TB, dir string) { inRepository(t, dir, args...) }
	}
	nothing := func(testing.TB, string) {}
	rows := []struct {
		name         string
		before, then func(t testing.TB, dir string) // then: when it is resolved, before anything runs
		codes        []verdict.Code
	}{
		{"as committed", nothing, nothing, nil},
		{"a file that was changed", write("LICENSE"), nothing, codes("SOURCE_DIRTY")},
		{"a file that git does not follow", write("NOTES"), nothing, nil},
		{"a file that is changed after it began", nothing, write("LICENSE"), nil},
		{"the tag moves to another commit", run("commit", "-q", "--allow-empty", "-m", "more"), run("tag", "-f", tag), codes(verdict.SourceMoved)},
		{"the tag gets an annotation", nothing, run("tag", "-f", "-a", "-m", "other", tag), codes(verdict.SourceMoved)},
		{"the tag goes", nothing, run("tag", "-d", tag), codes(verdict.SourceMoved)},
		{"a tag is made", nothing, run("tag", "v9.9.9"), nil},
		{"the branch goes on", nothing, run("commit", "-q", "--allow-empty", "-m", "more"), nil},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			state := filepath.Join(t.TempDir(), "state")
			source := w.project(t, "lock:", "lock:")
			r.before(t, source)
			p := must[*pipeline.Pipeline](t)(w.pipeline(state, func(c *pipeline.Config) {
				c.Source.Repository = source
				c.Report = func(_ context.Context, format string, _ ...any) {
					if strings.HasPrefix(format, "build ") {
						r.then(t, source)
					}
				}
			}))
			refused(t, p.Build(t.Context()), r.codes...)
			_, err := os.Stat(filepath.Join(state, "files", filepath.FromSlash(compiled)))
			if signed := err == nil; signed != (r.codes == nil) {
				t.Errorf("provenance was signed: %t", signed)
			}
		})
	}
}
