package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/pipeline/doctor"
	"github.com/waybill-release/waybill/pkg/report/render"
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

// ahead are the options of a command that prints what it would sign, and signs only
// with --confirm.
type ahead struct {
	confirm bool
	output  string
}

func (a *ahead) addFlags(cmd *cobra.Command, confirm string) {
	cmd.Flags().BoolVar(&a.confirm, "confirm", false, confirm)
	cli.AddFormat(cmd, &a.output, "table or json: what would be signed; with --confirm, what was signed", "table", "json")
}

// printForecast prints a forecast, and returns an error if the command would fail.
func (a *ahead) printForecast(c *cobra.Command, f pipeline.Forecast, err error) error {
	if err != nil {
		return answer(c, cli.TableOutput(), nil, err)
	}
	if a.output == "json" {
		err = render.WriteJSON(c.OutOrStdout(), f)
	} else {
		err = f.Write(c.OutOrStdout())
	}
	if err != nil {
		return err
	}
	if err := f.Err(); err != nil {
		return err
	}
	fmt.Fprintln(c.ErrOrStderr(), "nothing was done; "+doing(f.Due()))
	return nil
}

func doing(due int) string {
	switch due {
	case 0:
		return "--confirm would sign nothing: everything is signed already"
	case 1:
		return "add --confirm to make this signature"
	}
	return fmt.Sprintf("add --confirm to make these %d signatures", due)
}

// done prints the outcome of a command that signs: everything that failed; as JSON
// also what was done.
func (a *ahead) done(c *cobra.Command, p *pipeline.Pipeline, err error) error {
	if a.output != "json" {
		return answer(c, cli.TableOutput(), nil, err)
	}
	return errors.Join(err, render.WriteJSON(c.OutOrStdout(), p.Done(err)))
}
