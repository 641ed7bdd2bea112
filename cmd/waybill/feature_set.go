package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/config"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// setting are the options of wishing something of a feature.
type setting struct {
	siteFlags
	scope   []string
	prepare string
	confirm bool
}

func featureSetCommand() *cobra.Command {
	o := &setting{}
	cmd := &cobra.Command{
		Use:   "set NAME [On|Off] --features PLACE",
		Short: "Say what is wanted of a feature that the store decides about",
		Long: `Write into the site what is wanted of a feature. Nothing is switched by that: the
reconciler sees it in its next pass, and takes the feature there step by step.

On and Off are for features that are dynamic: their author lets them be, and
FEATURES.yaml lists them under dynamic. What is wanted of all others is reviewed,
and stands under desired in that file; they are refused here. --scope is where the
feature is to be On, and everything without it.

--prepare-for is for all features: their data are brought into the form that
another version of Waybill reads, before that version is started. waybill feature
preflight says when that is needed. The version that runs takes it back.

Without --confirm nothing is written; what would be wanted is printed.

` + exit.Table,
		Example: `  waybill feature set StatusPage Off --features /srv/gate --confirm
  waybill feature set fleet/Drain On --features /srv/gate --scope registry.example.test/prod --confirm
  waybill feature set BundleReferrers --prepare-for v0.1 --features /srv/gate --confirm`,
		Args: cobra.RangeArgs(1, 2),
		RunE: o.run,
	}
	o.addFlags(cmd)
	cmd.Flags().StringArrayVar(&o.scope, "scope", nil, "HOST/PATH at which it is wanted, with all below it; repeats (default everything)")
	cmd.Flags().StringVar(&o.prepare, "prepare-for", "", "version of Waybill, as v0.1, for which the data of the feature are to be made ready")
	cmd.Flags().BoolVar(&o.confirm, "confirm", false, "really write it")
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
	name, ctx := config.Short(w.Key), cmd.Context()
	if o.confirm {
		f, err := w.Store(ctx, site.Features)
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s is %s; %s. The reconciler takes it there.\n", name, f.Status.State, render.Safe(config.Wants(f)))
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

// wish reads the command line.
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

// minorVersion reads a version of which the patch may be left out: features
// change with minor versions.
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
