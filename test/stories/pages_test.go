package stories

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A page is a page of docs whose fenced blocks are executed, in their order.
//
// A block that names a file after its language, as in "```yaml policy.yaml", is
// written to that file. A block of "console" is typed: each line that begins
// with "$ " is a command for bash, and a line that ends with a backslash goes
// on in the next. The lines below a command are its output, of stdout and
// stderr together; "…" stands for the rest of a line or, on a line of its own,
// for any number of lines. If no line is shown, the output is not compared. A
// status other than 0 is shown after the output, as "(exit 1)". No other blocks
// are allowed, so that nothing on a page is untested. A transcript that a comment
// names is typed by test/servers, with clients that others wrote.
type page struct {
	path string   // of the page
	dir  string   // where files are written and commands run
	env  []string // added to the environment
	// lab replaces addresses and names on the page by those of the lab.
	lab *strings.Replacer
}

// A block is a fenced block of a page.
type block struct {
	line int // of the page
	lang string
	file string // empty for a console
	text string
}

// A command is one command of a console block.
type command struct {
	typed string
	shows string // the output; empty if the page shows none
	code  int    // the exit status
}

// typedElsewhere is a transcript that test/servers checks.
var typedElsewhere = regexp.MustCompile("(?s)<!-- transcript: checked by test/servers \\w+ -->\n```console\n.*?\n```\n")

var fence = regexp.MustCompile("(?m)^```(\\S+)(?: +(\\S+))?\n((?s:.*?)\n)```$")

// blocks reads the blocks of a page.
func (p page) blocks() (all []block, err error) {
	raw, err := os.ReadFile(p.path)
	if err != nil {
		return nil, err
	}
	text := typedElsewhere.ReplaceAllString(string(raw), "")
	for _, at := range fence.FindAllStringSubmatchIndex(text, -1) {
		b := block{line: 1 + strings.Count(text[:at[0]], "\n"), lang: text[at[2]:at[3]], text: text[at[6]:at[7]]}
		if at[4] >= 0 {
			b.file = text[at[4]:at[5]]
		}
		if b.file == "" && b.lang != "console" {
			return nil, fmt.Errorf("%s:%d: a block of %s that names no file is not executed", p.path, b.line, b.lang)
		}
		all = append(all, b)
	}
	if fences := strings.Count("\n"+text, "\n```"); fences != 2*len(all) || fences == 0 {
		return nil, fmt.Errorf("%s has %d fences around %d blocks", p.path, fences, len(all))
	}
	return all, nil
}

// run executes a page. The first command that does not do what the page says
// ends it, because later ones may need it.
func (p page) run(ctx context.Context) error {
	blocks, err := p.blocks()
	if err != nil {
		return err
	}
	for _, b := range blocks {
		if b.file != "" {
			if err := p.write(b); err != nil {
				return err
			}
			continue
		}
		for _, c := range b.commands() {
			if err := p.typed(ctx, c); err != nil {
				return fmt.Errorf("%s:%d: %w", p.path, b.line, err)
			}
		}
	}
	return nil
}

// write writes a block to its file; what begins with #! can be executed.
func (p page) write(b block) error {
	path, mode := filepath.Join(p.dir, filepath.FromSlash(b.file)), os.FileMode(0o644)
	if strings.HasPrefix(b.text, "#!") {
		mode = 0o755
	}
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(p.lab.Replace(b.text)), mode))
}

// commands splits a console block.
func (b block) commands() (all []command) {
	typing := false
	for line := range strings.Lines(b.text) {
		typed, begins := strings.CutPrefix(line, "$ ")
		switch {
		case begins:
			all = append(all, command{typed: typed})
		case len(all) == 0:
			return []command{{typed: "false # the block does not begin with a command"}}
		case typing:
			all[len(all)-1].typed += line
		default:
			all[len(all)-1].shows += line
		}
		typing = (begins || typing) && strings.HasSuffix(line, "\\\n")
	}
	for i := range all {
		all[i].ends()
	}
	return all
}

var exits = regexp.MustCompile(`(?m)^\(exit (\d+)\)\n\z`)

// ends takes the exit status off the output.
func (c *command) ends() {
	if at := exits.FindStringSubmatchIndex(c.shows); at != nil {
		c.code, _ = strconv.Atoi(c.shows[at[2]:at[3]])
		c.shows = c.shows[:at[0]]
	}
}

// shownAs matches the output that a page shows.
func shownAs(text string) *regexp.Regexp {
	quoted := regexp.QuoteMeta(text)
	quoted = regexp.MustCompile(`(?m)^…\n`).ReplaceAllString(quoted, `(?:.*\n)*?`)
	return regexp.MustCompile(`\A` + strings.ReplaceAll(quoted, "…", ".*") + `\z`)
}

// uses skips a test, except in CI, if this machine lacks a program that the test
// runs.
func uses(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("this test runs %s: %v", program, err)
	}
}

// progressLine is a line of progress on something that is no terminal.
var progressLine = regexp.MustCompile(`(?m)^[a-z][a-z ]*( \d+)? of \d+ [^\n]*, [0-9ms]+( left)?\n`)

// typed runs a command, and compares its end with the page.
func (p page) typed(ctx context.Context, c command) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", p.lab.Replace(c.typed))
	cmd.Dir, cmd.Env = p.dir, append(os.Environ(), p.env...)
	out, err := cmd.CombinedOutput()
	out = progressLine.ReplaceAll(out, nil) // only a slow machine prints any
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	if got := cmd.ProcessState.ExitCode(); got != c.code {
		return fmt.Errorf("$ %sended with status %d; the page says %d\n%s", c.typed, got, c.code, out)
	}
	if c.shows != "" && !shownAs(p.lab.Replace(c.shows)).Match(out) {
		return fmt.Errorf("$ %sshows on the page\n%s\nbut prints\n%s", c.typed, c.shows, out)
	}
	return nil
}

// TestDocsPages: a page that says anything else than what happens is refused.
func TestDocsPages(t *testing.T) {
	const file = "```text a/b\none\ntwo\n```\n"
	console := func(lines string) string { return file + "\n```console\n" + lines + "```\n" }
	for _, r := range []struct{ name, page, refusal string }{
		{"it is so", console("$ cat a/b\none\ntwo\n$ cat \\\n  a/b\n…\nt…o\n$ cat a/b && false\none\ntwo\n(exit 1)\n$ cat a/b\n"), ""},
		{"other output", console("$ cat a/b\none\nthree\n"), "but prints"},
		{"less output", console("$ cat a/b\none\n"), "but prints"},
		{"more output", console("$ cat a/b\none\ntwo\nthree\n"), "but prints"},
		{"an unnamed status", console("$ cat a/b && false\none\ntwo\n"), "status 1; the page says 0"},
		{"another status", console("$ cat a/b\none\ntwo\n(exit 1)\n"), "status 0; the page says 1"},
		{"output without a command", console("one\n"), "status 1; the page says 0"},
		{"a block of no file", file + "```go\npackage a\n```\n", "names no file"},
		{"an open block", file + "```console\n$ true\n", "3 fences around 1 block"},
		{"no block", "nothing\n", "0 fences"},
	} {
		t.Run(r.name, func(t *testing.T) {
			p := page{path: filepath.Join(t.TempDir(), "page.md"), dir: t.TempDir(), lab: strings.NewReplacer()}
			save(t, []byte(r.page), p.path)
			if err := p.run(t.Context()); (r.refusal == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), r.refusal) {
				t.Errorf("%v; want %q", err, r.refusal)
			}
		})
	}
}
