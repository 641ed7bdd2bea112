package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func verifyLayoutCommand() *cobra.Command {
	var output cli.Output
	var moment cli.Moment
	var keys, parameters []string
	req := gate.LayoutRequest{}
	cmd := newCommand("verify_layout", cobra.MinimumNArgs(2), func(c *cobra.Command, args []string) (err error) {
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
	})
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
