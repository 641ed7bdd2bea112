package stories

import (
	"context"
	"errors"
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
// are allowed, so that nothing on a page is untested.
type page struct {
	path string   // of the page, below the checkout
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

var fence = regexp.MustCompile("(?m)^```(\\S+)(?: +(\\S+))?\n((?s:.*?)\n)```$")

// blocks reads the blocks of a page.
func (p page) blocks(t *testing.T) (all []block) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", p.path))
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for _, at := range fence.FindAllStringSubmatchIndex(text, -1) {
		b := block{line: 1 + strings.Count(text[:at[0]], "\n"), lang: text[at[2]:at[3]], text: text[at[6]:at[7]]}
		if at[4] >= 0 {
			b.file = text[at[4]:at[5]]
		}
		if b.file == "" && b.lang != "console" {
			t.Fatalf("%s:%d: a block of %s that names no file is not executed", p.path, b.line, b.lang)
		}
		all = append(all, b)
	}
	if fences := strings.Count("\n"+text, "\n```"); fences != 2*len(all) || fences == 0 {
		t.Fatalf("%s has %d fences around %d blocks", p.path, fences, len(all))
	}
	return all
}

// run executes a page. The first command that does not do what the page says
// ends it, because later ones may need it.
func (p page) run(t *testing.T) {
	t.Helper()
	for _, b := range p.blocks(t) {
		if b.file != "" {
			p.write(t, b)
			continue
		}
		for _, c := range b.commands() {
			p.typed(t, b, c)
		}
	}
}

// write writes a block to its file; what begins with #! can be executed.
func (p page) write(t *testing.T, b block) {
	t.Helper()
	path, mode := filepath.Join(p.dir, filepath.FromSlash(b.file)), os.FileMode(0o644)
	if strings.HasPrefix(b.text, "#!") {
		mode = 0o755
	}
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(p.lab.Replace(b.text)), mode))
	if err != nil {
		t.Fatal(err)
	}
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
func shownAs(shows string) *regexp.Regexp {
	quoted := regexp.QuoteMeta(shows)
	quoted = regexp.MustCompile(`(?m)^…\n`).ReplaceAllString(quoted, `(?:.*\n)*?`)
	return regexp.MustCompile(`\A` + strings.ReplaceAll(quoted, "…", ".*") + `\z`)
}

// typed runs a command, and compares its end with the page.
func (p page) typed(t *testing.T, b block, c command) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", p.lab.Replace(c.typed))
	cmd.Dir, cmd.Env = p.dir, append(os.Environ(), p.env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != c.code {
		t.Fatalf("%s:%d: $ %sended with status %d; the page says %d\n%s", p.path, b.line, c.typed, got, c.code, out)
	}
	if c.shows != "" && !shownAs(p.lab.Replace(c.shows)).Match(out) {
		t.Fatalf("%s:%d: $ %sshows on the page\n%s\nbut prints\n%s", p.path, b.line, c.typed, c.shows, out)
	}
}
