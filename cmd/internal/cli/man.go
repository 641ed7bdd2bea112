package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/redact"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Man is the command that writes the manual pages of a program.
func Man() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages of all commands",
		Long: `Write a manual page for each command to a directory, as COMMAND.1: the text of its
help. An existing page is replaced. Read one with man DIR/COMMAND.1.

` + exit.Table("the pages were written"),
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n := 0
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return verdict.Wrap(verdict.NotWritable, args[0], err)
			}
			if err := manPages(cmd.Root(), args[0], &n); err != nil {
				return verdict.Wrap(verdict.NotWritable, args[0], err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "wrote %s to %s\n", plural.Of(n, "manual page"), redact.Secrets(args[0]))
			return nil
		},
	}
}

func manPages(cmd *cobra.Command, dir string, written *int) error {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			if err := manPages(sub, dir, written); err != nil {
				return err
			}
		}
	}
	*written++
	return os.WriteFile(filepath.Join(dir, manName(cmd)+".1"), []byte(manPage(cmd)), 0o644)
}

func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage is the page of one command, in the language of man. It has no date, so that the
// same program always writes the same page.
func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	section := func(title, text string) {
		if text = strings.TrimRight(text, "\n"); text != "" {
			fmt.Fprintf(&b, ".SH %s\n.nf\n%s\n.fi\n", title, roff(text))
		}
	}
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q\n.SH NAME\n%s \\- %s\n", strings.ToUpper(manName(cmd)), "waybill "+BuildVersion(), roff(manName(cmd)), roff(cmd.Short))
	section("SYNOPSIS", cmd.UseLine())
	about, status, _ := strings.Cut(cmd.Long, "EXIT STATUS\n")
	section("DESCRIPTION", about)
	b.WriteString(".SH OPTIONS\n")
	cmd.InitDefaultHelpFlag()
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		kind, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if d := f.DefValue; d != "" && d != "false" && d != "0" && d != "[]" && d != "0s" {
			usage += " (default " + d + ")"
		}
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace(name+" "+kind)), roff(usage))
	})
	section("EXAMPLES", cmd.Example)
	section("EXIT STATUS", status)
	var also []string
	if cmd.HasParent() {
		also = append(also, manName(cmd.Parent())+"(1)")
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			also = append(also, manName(sub)+"(1)")
		}
	}
	section("SEE ALSO", strings.Join(also, "\n"))
	return b.String()
}

// roff escapes text, in ASCII: a dot or an apostrophe at the beginning of a line would
// be a command.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	for _, mark := range []string{".", "'"} {
		text = strings.ReplaceAll("\n"+text, "\n"+mark, "\n\\&"+mark)[1:]
	}
	var b strings.Builder
	for _, r := range text {
		if r <= unicode.MaxASCII {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\[u%04X]", r)
		}
	}
	return b.String()
}
