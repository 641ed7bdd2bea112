package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/govern/feature/config"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func featureCommand() *cobra.Command {
	cmd := group(cobra.Command{
		Use:     "feature",
		Short:   "Turn policy requirements on and off safely",
		GroupID: "feature",
		Long: `Turn requirements on and off in steps, because a sudden change breaks releases. A
requirement that can be switched is a feature. While a feature is TurningOn, a
warning names every artifact that it will refuse. It is On when every program that
uses it has reported the new value and an audit has found no artifact that it would
refuse. Turning it off takes the same steps, and lists the objects that still refer
to a feature that is Off.

A site stores its features in a directory or a bucket, which everyone may be allowed
to read. One reviewed file, FEATURES.yaml, gives the desired state of each.
Only waybill feature reconcile changes states, step by step, and signs a statement
about each step. A policy names the requirements that may be switched, and for each
the minimum that no site can lower.

` + exit.Table("success"),
	})
	cmd.AddCommand(featureListCommand(), featureGetCommand(), featureSetCommand(), featureReconcileCommand(), featurePreflightCommand())
	return cmd
}

// maxFeaturesFile bounds FEATURES.yaml.
const maxFeaturesFile = 1 << 20

// readFeatures reads FEATURES.yaml.
func readFeatures(path string) (config.Config, error) {
	raw, err := store.ReadNamed(path, maxFeaturesFile)
	if err != nil {
		return config.Config{}, unreadFeatures(path, err)
	}
	c, err := config.ParseConfig(raw, filepath.Dir(path), known.Registry())
	if err != nil {
		return config.Config{}, verdict.InFile(path, err)
	}
	return c, nil
}

// unreadFeatures explains why FEATURES.yaml was not read. The operator wrote it, so
// a file that is too large, or no regular file, is wrong use and no refusal.
func unreadFeatures(path string, err error) error {
	const next = "name a FEATURES.yaml, the file with the desired states of the features"
	switch f := verdict.FindingOf(path, err); f.Code {
	case verdict.Limit:
		return verdict.Refuse(verdict.ConfigParse, path, "more than %d bytes, the limit of a file of kind %s", maxFeaturesFile, config.Kind).Advise(next)
	case verdict.FileType:
		return verdict.Refuse(verdict.Usage, path, "%s", f.Message).Advise(next)
	}
	return err
}

// siteFlags say where the features are stored.
type siteFlags struct{ place, file string }

func (o *siteFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.place, "features", "", "site of the features: the directory or bucket that waybill feature reconcile writes to")
}

// addConfigFlag adds --config, which names the site by the file of its reconciler.
func (o *siteFlags) addConfigFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.file, "config", "", "FEATURES.yaml that names the site, instead of --features")
}

// open opens the site.
func (o *siteFlags) open() (featurestore.Site, error) {
	uri := o.place
	switch {
	case uri != "" && o.file != "":
		return featurestore.Site{}, verdict.Refuse(verdict.Usage, "--features", "the file %s names a site, too; give one of the two", o.file)
	case uri == "" && o.file == "":
		return featurestore.Site{}, verdict.Refuse(verdict.Usage, "--features", "required: the site of the features; or name the FEATURES.yaml that names it")
	case uri == "":
		c, err := readFeatures(o.file)
		if err != nil {
			return featurestore.Site{}, err
		}
		uri = c.Site
	}
	return openSite(uri, false)
}

func addFeatureOutput(cmd *cobra.Command, w *config.Writer) {
	cmd.Flags().StringVarP(&w.Format, "output", "o", string(render.Table), "table or json")
}

func featureListCommand() *cobra.Command {
	at, out := &siteFlags{}, &config.Writer{Known: known.Registry()}
	cmd := &cobra.Command{
		Use:   "list --features PLACE",
		Short: "List the features, and what each is waiting for",
		Long: `List the features of a site: the state of each, its desired state, default and
stage, and its scope; then what must be done before a state changes, which programs
have not reported yet, and what still refers to a feature that is Off.

RequireProvenance and RequireSignoff are requirements. When On, they are enforced by
the gates that use the site, as far as the policy allows; on the way there they cause
warnings. All other features change what programs do: dynamic ones follow the site
while a program runs, and the others are set by --feature-gates for each run, which
reports its value to the site. waybill feature get says what On means for each.

The list shows what the site says. A program that decides by a feature uses the
signed statements beside it.

` + exit.Table("the features were printed"),
		Example: `  waybill feature list --features /srv/gate
  waybill feature list --features gs://gate/features --output json
  waybill feature list --config FEATURES.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			site, err := at.open()
			if err != nil {
				return err
			}
			all, err := site.Features.List(cmd.Context())
			if err != nil {
				return err
			}
			return out.List(cmd.OutOrStdout(), all)
		},
	}
	at.addFlags(cmd)
	at.addConfigFlag(cmd)
	addFeatureOutput(cmd, out)
	return cmd
}

func featureGetCommand() *cobra.Command {
	at, out := &siteFlags{}, &config.Writer{Known: known.Registry()}
	cmd := &cobra.Command{
		Use:   "get NAME --features PLACE",
		Short: "Show everything about one feature",
		Long: `Show one feature: its state and desired state, the remaining tasks with the result
of the last attempt at each, the programs that use it with the value that each
reported, the conditions (whether anything still refers to it when it is Off, and
whether the next and the previous version can be started), and the last transitions,
each with its signed statement. Statements are stored below statements/ of the site.

NAME is a feature of Waybill, or NAMESPACE/Name.

` + exit.Table("the feature was printed"),
		Example: `  waybill feature get RequireProvenance --features /srv/gate
  waybill feature get fleet/Drain --features gs://gate/features --output json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := config.ParseName(args[0])
			if err != nil {
				return err
			}
			if err := out.Check(); err != nil {
				return err
			}
			site, err := at.open()
			if err != nil {
				return err
			}
			f, err := config.Find(cmd.Context(), site.Features, k)
			if err != nil {
				return err
			}
			return out.Feature(cmd.OutOrStdout(), f)
		},
	}
	at.addFlags(cmd)
	at.addConfigFlag(cmd)
	addFeatureOutput(cmd, out)
	return cmd
}
