package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/report/notes"
)

func notesCommand() *cobra.Command {
	o := &cli.VerifyRelease{Rules: rules(), OpenPlace: cloud.OpenPlace, Output: *cli.TableOutput(), Part: cli.Part{Depth: "provenance"}}
	var format string
	cmd := newCommand("notes", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		o.Answer = func(w io.Writer, d gate.Decided) error {
			n, err := notes.Of(d, o.Profile)
			if err != nil {
				return err
			}
			if format == "json" {
				return n.JSON(w)
			}
			return n.Markdown(w)
		}
		return o.Run(cmd, args, profile.Release)
	})
	f := cmd.Flags()
	f.StringVar(&o.Profile, "profile", "", "profile that names places, policy and trust root (required)")
	cli.AddFormat(cmd, &format, "markdown or json", "markdown", "json")
	f.BoolVar(&o.Trust.Offline, "offline", false, "make no network connection: every place must be local, and a profile without a trust root uses the public-good one that is built into this program")
	o.At.AddFlags(cmd)
	o.Trust.AddFlags(cmd)
	o.Waivers.AddFlags(cmd)
	return cmd
}
