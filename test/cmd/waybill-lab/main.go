// Command waybill-lab runs the whole world of a release on loopback, for
// tutorials, demonstrations and tests. See package lab.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-release/waybill/pkg/produce/checkout"
	"github.com/waybill-release/waybill/test/lab"
)

// The exit codes, as in waybill itself.
const (
	exitUsage = 2
	exitBug   = 4
)

const exitHelp = `
Exit status: 0 done, 2 wrong use, 4 the lab or this machine failed.`

func main() {
	if code, ok := checkout.Serve(); ok { // this process was started to run a step of a release that is built here
		os.Exit(code)
	}
	// The timestamp authority's package adds its server's flags to every
	// program that imports it.
	pflag.CommandLine = pflag.NewFlagSet("waybill-lab", pflag.ContinueOnError)
	root := &cobra.Command{
		Use:           "waybill-lab",
		Short:         "The whole world of a release on loopback: " + lab.Mark,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
		Long: `waybill-lab runs everything that a release needs and a verifier asks, in one
process, on loopback only: an OIDC issuer, Fulcio with a CT log, a Rekor v2
and a Rekor v1 log, a timestamp authority, a TUF repository, an OCI registry, a
bucket and a Go module proxy.
` + exitHelp,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newUp(), newToken(), newDown(), newDrill())
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "waybill-lab:", err)
		os.Exit(exitCode(err))
	}
}

// usageError is a mistake in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func exitCode(err error) int {
	var usage usageError
	switch {
	case errors.As(err, &usage), errors.Is(err, lab.ErrNotLoopback),
		errors.Is(err, lab.ErrRunning), errors.Is(err, lab.ErrNotRunning):
		return exitUsage
	default:
		return exitBug
	}
}

// noArgs refuses arguments as wrong use.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unexpected argument %q", args[0])}
	}
	return nil
}
