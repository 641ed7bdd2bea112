package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func verifyLayoutCommand() *cobra.Command {
	var output cli.Output
	var moment cli.Moment
	var keys, parameters []string
	req := gate.LayoutRequest{}
	cmd := &cobra.Command{
		Use:   "layout LAYOUT FILE… --key OWNER.pub --links DIRECTORY",
		Short: "Verify that files were made as an in-toto layout requires",
		Long: `Verify each file with an in-toto layout and the links of its steps. The layout must
be signed by every --key, and not be expired. Each step must have as many links as
the layout requires, signed by keys that it names for that step, and their materials
and products must satisfy its rules. Each FILE must be a product of the last step,
by name and by digest.

A link is the file STEP.KEYID.link in the directory of --links, where KEYID is the
first eight characters of the id of the signing key; the links of a step that is a
layout itself are in the directory STEP.KEYID there. Layouts and links may be DSSE
envelopes, or of the legacy form with "signed" and "signatures".

A layout may contain inspections: commands to run on the files. This program runs no
command from a document, so such a layout is refused unless you give
--without-inspections; the verdict then lists what was not run.

` + exit.Table(exit.Accepted),
		Example: `  waybill verify layout root.layout lantern.tar.gz --key owner.pub --links links`,
		Args:    cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if err := output.Check(); err != nil {
				return err
			}
			if req.Now, err = moment.Time(); err != nil {
				return err
			}
			switch {
			case len(keys) == 0:
				return verdict.Refuse(verdict.Usage, "--key", "required: the public key of the owner of the layout")
			case req.Links == "":
				return verdict.Refuse(verdict.Usage, "--links", "required: the directory of the links")
			}
			for _, path := range keys {
				public, err := cli.PublicKey(path)
				if err != nil {
					return err
				}
				req.Keys = append(req.Keys, public)
			}
			if req.Parameters, err = parametersOf(parameters); err != nil {
				return err
			}
			req.Layout, req.Files = args[0], args[1:]
			v := gate.Layout(c.Context(), req)
			if cause := context.Cause(c.Context()); cause != nil {
				return cause
			}
			return answer(c, &output, v, nil)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&keys, "key", nil, "public key (PEM) of an owner of the layout, who must have signed it; repeats")
	f.StringVar(&req.Links, "links", "", "directory of the links")
	f.StringArrayVar(&parameters, "parameter", nil, "NAME=VALUE: replace {NAME} in the layout by VALUE; repeats")
	f.BoolVar(&req.WithoutInspections, "without-inspections", false, "accept the layout although its inspections are not run; the verdict lists them")
	moment.AddFlags(cmd)
	output.AddFlags(cmd)
	return cmd
}

func parametersOf(given []string) (map[string]string, error) {
	values := map[string]string{}
	for _, text := range given {
		name, value, ok := strings.Cut(text, "=")
		if _, twice := values[name]; !ok || name == "" || twice {
			return nil, verdict.Refuse(verdict.Usage, "--parameter", "%q: want NAME=VALUE, each name once", text)
		}
		values[name] = value
	}
	return values, nil
}
