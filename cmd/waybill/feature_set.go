package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/config"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

type setting struct {
	siteFlags
	scope   []string
	prepare string
	confirm bool
}

func featureSetCommand() *cobra.Command {
	o := &setting{}
	cmd := newCommand("feature_set", cobra.RangeArgs(1, 2), o.run)
	o.addFlags(cmd)
	cmd.Flags().StringArrayVar(&o.scope, "scope", nil, "HOST/PATH where the feature is to be On, with everything below it; repeats (default: everywhere)")
	cmd.Flags().StringVar(&o.prepare, "prepare-for", "", "version of Waybill, such as v0.1, that must be able to read the data of the feature")
	cmd.Flags().BoolVar(&o.confirm, "confirm", false, "write the desired state; without it, only print the change")
	return cmd
}

func (o *setting) run(cmd *cobra.Command, args []string) error {
	w, err := o.wish(args)
	if err == nil {
		err = w.Check()
	}
	if err != nil {
		return err
	}
	site, err := o.open()
	if err != nil {
		return err
	}
	name, ctx := w.Key.Short(), cmd.Context()
	if o.confirm {
		f, err := w.Store(ctx, site.Features)
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s is %s; %s. The reconciler will bring it there.\n", name, f.Status.State, render.Safe(config.Wants(f)))
		return nil
	}
	before, err := config.Find(ctx, site.Features, w.Key)
	if err != nil {
		return err
	}
	after, err := w.Of(before)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s is %s\n  now  %s\n  then %s\n", name, before.Status.State, render.Safe(config.Wants(before)), render.Safe(config.Wants(after)))
	fmt.Fprintln(cmd.ErrOrStderr(), "nothing was written; add --confirm to write it")
	return nil
}

// wish reads the desired state from the command line.
func (o *setting) wish(args []string) (config.Wish, error) {
	w := config.Wish{Scope: o.scope}
	var err error
	if w.Key, err = config.ParseName(args[0]); err != nil {
		return config.Wish{}, err
	}
	if len(args) == 2 {
		w.Desired = feature.State(args[1])
	}
	if o.prepare != "" {
		w.PrepareFor, err = minorVersion("--prepare-for", o.prepare)
	}
	return w, err
}

// minorVersion reads a version without requiring its patch number: features change
// with minor versions.
func minorVersion(flag, text string) (version.Version, error) {
	if v, err := version.Parse(text + ".0"); err == nil {
		return v, nil
	}
	v, err := cli.Version([]string{text})
	if err != nil {
		return version.Version{}, verdict.Refuse(verdict.Usage, flag, "%q: want a version of Waybill, such as v0.2", text)
	}
	return v, nil
}
