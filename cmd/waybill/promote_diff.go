package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/ui"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/report/render"
)

func promoteDiffCommand() *cobra.Command {
	output := ""
	cmd := newCommand("promote_diff", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		plan, err := readPlan(args[0])
		if err != nil {
			return err
		}
		rt := cli.Transport(false)
		progress := ui.NewProgress(cmd.ErrOrStderr())
		d, err := promote.Diff{
			Plan: plan, Progress: progress.Count("comparing", "repositories"),
			Open: func(host string) (*registry.Remote, error) { return registry.OpenRemote(host, rt) },
		}.Compare(cmd.Context())
		progress.Ended("")
		switch {
		case err != nil:
			return err
		case output == "json":
			if err := render.WriteJSON(cmd.OutOrStdout(), d); err != nil {
				return err
			}
		default:
			printDifference(cmd.OutOrStdout(), d)
		}
		return d.Err()
	})
	cli.AddFormat(cmd, &output, "table or json", "table", "json")
	return cmd
}

// printDifference lists the images that are not there as planned, and then the
// counts.
func printDifference(w io.Writer, d promote.Difference) {
	wide := len("DESTINATION")
	for _, s := range d.Destinations {
		wide = max(wide, len(s.To))
		for _, i := range s.Images {
			what, why := "@"+i.Digest.String(), i.Why
			if len(i.Tags) > 0 {
				what = ":" + i.Tags[0] + what
			}
			if i.State == promote.Other {
				what, why = ":"+i.Tag, "names "+i.Got.String()+", not "+i.Digest.String()
			}
			fmt.Fprintf(w, "%-8s %s/%s%s  %s\n", i.State, s.To, i.Image, what, why)
		}
		if more := s.Missing + s.Other + s.Unknown - len(s.Images); more > 0 {
			fmt.Fprintf(w, "         %s: %d more\n", s.To, more)
		}
	}
	fmt.Fprintf(w, "\n%-*s %8s %8s %8s %8s %8s\n", wide, "DESTINATION", "SAME", "MISSING", "OTHER", "UNKNOWN", "UNNAMED")
	for _, s := range d.Destinations {
		fmt.Fprintf(w, "%-*s %8d %8d %8d %8d %8d\n", wide, s.To, s.Same, s.Missing, s.Other, s.Unknown, s.Unnamed)
	}
	fmt.Fprintf(w, "\nrequests: %d for lists, %d for single tags and digests\nplan %s\n", d.Lists, d.Heads, d.Plan)
}
