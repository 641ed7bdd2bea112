package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/pipeline/doctor"
)

// stageVerb makes the command of one stage. The stages differ in their texts and in
// run. done says what status 0 means.
func stageVerb(cmd cobra.Command, done string, run func(context.Context, *pipeline.Pipeline) error, more ...func(*project, *cobra.Command)) *cobra.Command {
	o := &project{}
	cmd.GroupID, cmd.Args = "stage", cobra.ExactArgs(1)
	cmd.Long += "\n\n" + exit.Table(done)
	cmd.RunE = func(c *cobra.Command, args []string) error {
		p, ctx, err := o.open(c, args)
		if err != nil {
			return err
		}
		return answer(c, cli.TableOutput(), nil, run(ctx, p))
	}
	o.addFlags(&cmd)
	o.addSourceFlags(&cmd)
	o.addTokenFlags(&cmd)
	for _, add := range more {
		add(o, &cmd)
	}
	return &cmd
}

func buildCommand() *cobra.Command {
	o, twice := &project{}, false
	cmd := &cobra.Command{
		Use:     "build VERSION…",
		Short:   "Run the steps of release.yaml and sign the provenance of each",
		GroupID: "stage",
		Long:    help("stages_build") + exit.Table("every step was built, and its provenance signed"),
		Example: `  waybill build v0.1.0 --source ./lantern --profile profile.yaml --identity-token builder=builder.token`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
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
		},
	}
	cmd.Flags().BoolVar(&twice, "twice", false, "build twice, in other directories, at other times and with other parallelism, and name what differs; nothing is signed or kept")
	o.addFlags(cmd)
	o.addSourceFlags(cmd)
	o.addTokenFlags(cmd)
	o.addFeatureFlags(cmd)
	return cmd
}

func signCommand() *cobra.Command {
	o, s := &project{}, &ahead{}
	cmd := &cobra.Command{
		Use:     "sign VERSION",
		Short:   "Sign every planned file and image with the release identity",
		GroupID: "stage",
		Long:    help("stages_sign") + exit.Table("every planned file and image is signed;\nwithout --confirm: nothing prevents it, and the signatures were listed"),
		Example: help("stages_sign.examples"),
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := s.check(); err != nil {
				return err
			}
			p, ctx, err := o.open(c, args)
			if err != nil {
				return err
			}
			if !s.confirm {
				f, err := p.ForecastActs(ctx, pipeline.ActSign)
				return s.printForecast(c, f, err)
			}
			return s.done(c, p, p.Sign(ctx))
		},
	}
	o.addFlags(cmd)
	o.addSourceFlags(cmd)
	o.addTokenFlags(cmd)
	o.addLegacyFlag(cmd)
	o.addFeatureFlags(cmd)
	s.addFlags(cmd, "sign; without it, only print what would be signed")
	return cmd
}
