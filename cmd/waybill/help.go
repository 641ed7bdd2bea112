package main

import (
	"embed"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/exit"
)

//go:embed help/*.txt
var helps embed.FS

// help is a text of the folder help.
func help(name string) string {
	raw, err := helps.ReadFile("help/" + name + ".txt")
	if err != nil {
		panic("waybill: " + err.Error())
	}
	return string(raw)
}

// newCommand makes a command of its texts in the folder help. NAME.txt begins with
// lines "Key: value", each of which an indented line continues: Use, Short, Group,
// and in Done what status 0 means. After an empty line follows the long help.
// NAME.examples.txt has the examples, if there are any.
func newCommand(name string, args cobra.PositionalArgs, run func(*cobra.Command, []string) error) *cobra.Command {
	head, long, _ := strings.Cut(help(name), "\n\n")
	texts := map[string]string{}
	last := ""
	for line := range strings.SplitSeq(head, "\n") {
		if more, is := strings.CutPrefix(line, "  "); is {
			texts[last] += "\n" + more
			continue
		}
		key, value, _ := strings.Cut(line, ": ")
		texts[key], last = value, key
	}
	cmd := &cobra.Command{Use: texts["Use"], Short: texts["Short"], GroupID: texts["Group"], Long: long, Args: args, RunE: run}
	if done := texts["Done"]; done != "" {
		cmd.Long = strings.TrimRight(long, "\n") + "\n\n" + exit.Table(done)
	}
	if examples, err := helps.ReadFile("help/" + name + ".examples.txt"); err == nil {
		cmd.Example = string(examples)
	}
	return cmd
}
