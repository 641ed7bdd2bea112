package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var (
	// quotedCommand is a command in a line of text, or alone in an indented line.
	quotedCommand = regexp.MustCompile("(?m)(?:`|^    )waybill ([^`\n]*)")
	flagOfCommand = regexp.MustCompile(`(?:^|[\s\[|])--([a-z-]+)`)
)

// unknownIn lists what a page names and no command has: words of commands, and
// flags.
func unknownIn(page string) (all []string) {
	top := root()
	top.InitDefaultCompletionCmd()
	for _, m := range quotedCommand.FindAllStringSubmatch(page, -1) {
		line, _, _ := strings.Cut(m[1], " #")
		cmd, rest, err := top.Find(strings.Fields(line))
		// A command with subcommands may take flags or a version, and no other word.
		if err != nil || cmd.HasSubCommands() && len(rest) > 0 && !strings.ContainsAny(rest[0][:1], "-[v") {
			all = append(all, m[1])
			continue
		}
		for _, f := range flagOfCommand.FindAllStringSubmatch(line, -1) {
			if cmd.InheritedFlags().Lookup(f[1]) == nil && cmd.Flags().Lookup(f[1]) == nil {
				all = append(all, cmd.CommandPath()+" --"+f[1])
			}
		}
	}
	return all
}

// TestDocsCommands: the page of the commands names each command, and pages name
// no command or flag that does not exist.
func TestDocsCommands(t *testing.T) {
	pages := map[string]string{}
	for _, name := range []string{"README.md", "docs/commands.md", "docs/concepts.md", "docs/levels.md", "docs/operations.md", "docs/tutorial.md", "docs/trace.md", "docs/verify.md"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		pages[name] = string(raw)
		for _, unknown := range unknownIn(string(raw)) {
			t.Errorf("%s names %q, which no command has", name, unknown)
		}
	}
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if !c.HasSubCommands() && !strings.Contains(pages["docs/commands.md"], "`"+c.CommandPath()) {
			t.Errorf("docs/commands.md does not name %q", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root())
	const good = "`waybill gate check v1.0.0 --profile p`, `waybill seal [--amend|--from]`\n\n    waybill trace - v0.1.0 --profile p    # --not a flag\n"
	if got := unknownIn(good); len(got) > 0 {
		t.Errorf("%q are known", got)
	}
	if got := unknownIn(strings.NewReplacer("check", "chek", "--from", "--form", "trace", "follow").Replace(good)); len(got) != 3 || !slices.Contains(got, "waybill seal --form") {
		t.Errorf("unknown are %q", got)
	}
}
