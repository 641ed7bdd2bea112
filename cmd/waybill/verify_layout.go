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
		Short: "Did these files come about as this in-toto layout demands?",
		Long: `Hold each file against an in-toto layout and the links of its steps. The layout
must be signed by every --key and not have expired. Each step must have as many
links as the layout demands, signed by keys that it names for that step, and
what they read and made must keep its rules. Each FILE must then be what the
last step made, by name and by bytes.

A link lies in the directory of --links as STEP.KEYID.link, where KEYID is the
first eight characters of the signing key's id; the links of a step that is a
layout itself lie in the directory STEP.KEYID there. Layouts and links may be
DSSE envelopes, or of the legacy form with "signed" and "signatures".

A layout may want commands to be run on the files. No command that a document
names is ever run here, so such a layout is refused unless you say
--without-inspections; the verdict then says what was left out.

` + exit.Table,
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
				return verdict.Refuse(verdict.Usage, "--key", "name the public key of the layout's owner")
			case req.Links == "":
				return verdict.Refuse(verdict.Usage, "--links", "name the directory of the links")
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
	f.BoolVar(&req.WithoutInspections, "without-inspections", false, "accept the layout although its inspections are not run")
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
