package stories

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDocsRelease executes the tutorial, which makes a first release in a lab of
// its own; then, in the same directory, the page of the concepts; and beside it
// the page that converts a project of GoReleaser.
func TestDocsRelease(t *testing.T) {
	dir, programs := filepath.Join(t.TempDir(), "hello"), t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", programs+"/", "./cmd/waybill-lab")
	build.Dir, build.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	shop := filepath.Join(filepath.Dir(dir), "shop")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.MkdirAll(shop, 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		down := exec.Command(filepath.Join(programs, "waybill-lab"), "down", "--dir", filepath.Join(dir, "lab"))
		if out, err := down.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	for _, of := range []struct{ name, dir string }{{"tutorial.md", dir}, {"concepts.md", dir}, {"how-to/from-goreleaser.md", shop}} {
		p := page{path: filepath.Join("..", "..", "docs", filepath.FromSlash(of.name)), dir: of.dir, lab: strings.NewReplacer(), env: []string{
			"PATH=" + programs + ":" + bin + ":" + os.Getenv("PATH"), "XDG_CACHE_HOME=" + filepath.Join(programs, "cache"),
			"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=Hello", "GIT_AUTHOR_EMAIL=hello@example.test",
			"GIT_COMMITTER_NAME=Hello", "GIT_COMMITTER_EMAIL=hello@example.test",
		}}
		if err := p.run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadmePages executes the blocks of the README that verify what Kubernetes
// publishes, and the page about verifying, in the world of the how-to pages. The
// commands that make a release are those of docs/tutorial.md, in its order.
func TestReadmePages(t *testing.T) {
	uses(t, "curl")
	w := newHowTo(t)
	for _, name := range []string{"README.md", "docs/verify.md"} {
		p := w.page(t, name)
		p.path = filepath.Join("..", "..", filepath.FromSlash(name))
		if name == "README.md" {
			p.path = under(t, p.path, "## Verify a release in 60 seconds")
		}
		if err := p.run(t.Context()); err != nil {
			t.Error(err)
		}
	}
	short := page{path: under(t, filepath.Join("..", "..", "README.md"), "## Release your own in ten minutes")}
	full := page{path: filepath.Join("..", "..", "docs", "tutorial.md")}
	wanted, err := typedOn(short)
	shown, err2 := typedOn(full)
	if err := errors.Join(err, err2); err != nil || len(wanted) == 0 {
		t.Fatal(err, wanted)
	}
	for _, c := range wanted {
		i := slices.Index(shown, c)
		if i < 0 {
			t.Fatalf("README.md shows a command that docs/tutorial.md does not, or in another order:\n%s", c)
		}
		shown = shown[i+1:]
	}
}

// under copies what a page says below a heading, up to the next one.
func under(t *testing.T, path, heading string) string {
	t.Helper()
	_, text, found := strings.Cut(string(contents(t, path)), "\n"+heading+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	if !found {
		t.Fatalf("%s has no heading %q", path, heading)
	}
	part := filepath.Join(t.TempDir(), filepath.Base(path))
	save(t, []byte(text+"\n"), part)
	return part
}

// typedOn lists the commands of a page.
func typedOn(p page) (all []string, err error) {
	blocks, err := p.blocks()
	for _, b := range blocks {
		if b.file == "" {
			for _, c := range b.commands() {
				all = append(all, c.typed)
			}
		}
	}
	return all, err
}
