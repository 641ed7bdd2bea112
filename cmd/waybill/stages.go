package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/pipeline/doctor"
)

func buildCommand() *cobra.Command {
	o, twice := &project{}, false
	cmd := newCommand("stages_build", cobra.MinimumNArgs(1), func(c *cobra.Command, args []string) error {
		train, ctx, err := o.openAll(c, args)
		if err != nil {
			return err
		}
		for i := 0; twice && i < len(train); i++ {
			v, err := pipeline.BuildTwice(ctx, train[i])
			if err := answer(c, cli.TableOutput(), v, err); err != nil || i == len(train)-1 {
				return err
			}
		}
		err = train.Run(ctx, doctor.Build, func(ctx context.Context, _ int, p *pipeline.Pipeline) error { return p.Build(ctx) })
		return answer(c, cli.TableOutput(), nil, err)
	})
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&twice, "twice", false, "build twice, in other directories, at other times and with other parallelism, and name what differs; nothing is signed or kept")
	o.addSourceFlags(cmd)
	o.addTokenFlags(cmd)
	o.addFeatureFlags(cmd)
	return cmd
}

func signCommand() *cobra.Command {
	o, s := &project{}, &ahead{}
	cmd := newCommand("stages_sign", cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		p, ctx, err := o.open(c, args)
		if err != nil {
			return err
		}
		if !s.confirm {
			f, err := p.ForecastActs(ctx, pipeline.ActSign)
			return s.printForecast(c, f, err)
		}
		return s.done(c, p, p.Sign(ctx))
	})
	o.addFlags(cmd)
	o.addSourceFlags(cmd)
	o.addTokenFlags(cmd)
	o.addLegacyFlag(cmd)
	o.addFeatureFlags(cmd)
	s.addFlags(cmd, "sign; without it, only print what would be signed")
	return cmd
}
