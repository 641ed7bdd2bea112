package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/test/drill"
)

const drillLong = `Rehearse a stolen signing identity in a lab of its own.

A release is made, mirrored, and packed into a kit. Then a thief who has the token of the
release identity publishes another one everywhere. waybill watch reports the thief's
entries of the log, and the commands of docs/how-to/incident.md run: the policy ends the
identity and names the next one, the release is withdrawn, the mirror takes that over, a
list of withdrawals is signed, and the earlier release is sealed again.

The table shows after how many seconds from the alarm each place refused the thief's
release, and by which code. "Old policy" is a user who has not got the new one. What was
signed before the theft must be accepted everywhere after the identity was ended; else,
or if a place still accepts the thief's release in the end, the drill fails.
` + exitHelp

func newDrill() *cobra.Command {
	var bin, example, keep, output string
	cmd := &cobra.Command{
		Use:     "drill [--keep DIR]",
		Short:   "Rehearse a stolen signing identity, and measure when each place refuses",
		Long:    drillLong,
		Example: `  waybill-lab drill --bin bin --example test/scene/shell` + "\n" + `  waybill-lab drill --output json --keep incident`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return usageError{fmt.Errorf("--output %q: want table or json", output)}
			}
			if _, err := os.Stat(filepath.Join(bin, "waybill")); err != nil {
				return usageError{fmt.Errorf("--bin: %w; build the commands first: make build", err)}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			dir := keep
			if keep == "" {
				made, err := os.MkdirTemp("", "waybill-drill-")
				if err != nil {
					return err
				}
				defer func() { _ = os.RemoveAll(made) }()
				dir = made
			} else if err := os.Mkdir(keep, 0o755); err != nil {
				return usageError{fmt.Errorf("--keep: %w", err)}
			}
			dir, err := filepath.Abs(dir)
			if err != nil {
				return err
			}
			report, err := drill.Run(ctx, drill.Options{Bin: bin, Example: example, Dir: dir, Tell: cmd.ErrOrStderr()})
			if err != nil {
				return err
			}
			if output == "json" {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(report)
			}
			return report.WriteTable(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&bin, "bin", "bin", "directory of the built commands")
	cmd.Flags().StringVar(&example, "example", "test/scene/shell", "the project that is released")
	cmd.Flags().StringVar(&keep, "keep", "", "run in this directory, which must not exist, and keep it (default: a temporary one, removed at the end)")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "print the report as table or json")
	return cmd
}
