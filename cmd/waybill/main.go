// Command waybill builds, describes, signs, seals, promotes and verifies
// software releases.
package main

import (
	"embed"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/pipeline/doctor/attack"
	"github.com/waybill-release/waybill/pkg/produce/checkout"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func main() {
	if code, ok := checkout.Serve(); ok { // this process was started to run a step, without credentials
		os.Exit(code)
	}
	if code, ok := attack.Serve(); ok { // or a malicious one, by doctor --attack-builder
		os.Exit(code)
	}
	startGCPercent()
	cli.FallbackRoots()
	os.Exit(exit.Run(observed(root())))
}

// startGCPercent raises GOGC until the first garbage collection. Building the tree of
// commands fills the few megabytes that Go starts with: without this, a short command
// spends a quarter of its CPU time on garbage collections. Large commands keep the usual
// limit, and those that set another one keep theirs.
func startGCPercent() {
	const percent, usual = 300, 100
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(percent)
	runtime.AddCleanup(new([64]byte), func(usual int) {
		if now := debug.SetGCPercent(usual); now != percent {
			debug.SetGCPercent(now)
		}
	}, usual)
}

// gcPercent sets GOGC, unless the environment does.
func gcPercent(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// group makes a command that only has subcommands. Without one of them it is wrong
// use: a script must not take the printed help for success.
func group(cmd cobra.Command) *cobra.Command {
	cmd.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return verdict.Refuse(verdict.Usage, c.CommandPath(), "unknown command %q", args[0])
		}
		if formatOf(c) == "text" { // a help page makes no sense in a log
			c.SetOut(c.ErrOrStderr())
			_ = c.Help() // printing help cannot fail
		}
		return verdict.Refuse(verdict.Usage, c.CommandPath(), "give one of its subcommands")
	}
	return &cmd
}

func root() *cobra.Command {
	cmd := group(cobra.Command{
		Use:     "waybill",
		Short:   "Build, sign, seal, publish and verify software releases",
		Long:    help("waybill") + exit.Table("success; for a command that verifies: "+exit.Accepted),
		Version: cli.About(),
	})
	addLogFlag(cmd)
	cmd.AddGroup(
		&cobra.Group{ID: "release", Title: "Make a release from start to end:"},
		&cobra.Group{ID: "stage", Title: "Run a single stage of a release:"},
		&cobra.Group{ID: "check", Title: "Verify, inspect and set policy:"},
		&cobra.Group{ID: "trust", Title: "Manage the trust root:"},
		&cobra.Group{ID: "feature", Title: "Turn policy requirements on and off:"},
	)
	cmd.AddCommand(
		initCommand(), lockCommand(), planCommand(), stageCommand(), releaseCommand(), statusCommand(),
		buildCommand(), rebuildCommand(), observeCommand(), sbomCommand(), signCommand(), sealCommand(), vexCommand(), promoteCommand(), kitCommand(),
		gateCommand(), verifyCommand(), reportCommand(), explainCommand(), inspectCommand(), expectCommand(), traceCommand(),
		policyCommand(), notesCommand(), signoffCommand(), featureCommand(), trustCommand(), doctorCommand(), watchCommand(), schemaCommand(), cli.Man(),
	)
	cli.Complete(cmd)
	return cmd
}

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
