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
		Short:   "Switch requirements on and off safely",
		GroupID: "switch",
		Long: `A requirement that is switched on from one day to the next stops releases that
nobody warned. A feature goes there in steps: while it is TurningOn, what it will
refuse is warned about by name; it is On when everybody who uses it was seen with
the new value and an audit found nothing that would be refused. The way back has
the same steps, and says what still refers to a feature that is Off.

Features are kept at a site: a directory or a bucket, which everybody can be let
read. One file, FEATURES.yaml, says what is wanted of them; it is reviewed, and
waybill feature reconcile alone follows it, step by step. About each step it signs
a statement. A policy names what may be switched, and how far at most: its floor,
which no site lowers.

` + exit.Table,
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

// unreadFeatures is why FEATURES.yaml was not read. It is the operator's own
// file: one that is too large, or none at all, is wrong use and no refusal.
func unreadFeatures(path string, err error) error {
	const next = "name the file that says what is wanted of the features"
	switch f := verdict.FindingOf(path, err); f.Code {
	case verdict.Limit:
		return verdict.Refuse(verdict.ConfigParse, path, "more than %d bytes, which no file of kind %s has", maxFeaturesFile, config.Kind).Advise(next)
	case verdict.FileType:
		return verdict.Refuse(verdict.Usage, path, "%s", f.Message).Advise(next)
	}
	return err
}

// siteFlags say where the features are.
type siteFlags struct{ place, file string }

func (o *siteFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.place, "features", "", "site of the features: the directory or bucket that waybill feature reconcile keeps")
}

// addConfigFlag lets the site be named by the file of its reconciler.
func (o *siteFlags) addConfigFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.file, "config", "", "FEATURES.yaml that names the site, in place of --features")
}

// open opens the site, and answers what it is called.
func (o *siteFlags) open() (featurestore.Site, error) {
	uri := o.place
	switch {
	case uri != "" && o.file != "":
		return featurestore.Site{}, verdict.Refuse(verdict.Usage, "--features", "%s names a site, too; give one of the two", o.file)
	case uri == "" && o.file == "":
		return featurestore.Site{}, verdict.Refuse(verdict.Usage, "--features", "required: the site of the features; or name the FEATURES.yaml that has it")
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
		Short: "List the features, and what each waits for",
		Long: `List the features at a site: the state of each, what is desired of it, its default
and stage, and where it counts; below, what is left to do before a state changes,
who was not heard of yet, and what still refers to a feature that is Off.

RequireProvenance and RequireSignoff are requirements: On, they are enforced by the
gates that go by the site, as far as the policy leaves that to it, and on their way
they are warned about. All others say what programs do: those that are dynamic follow
the site while they run, and the rest has --feature-gates of each run, which the site
is told, and waits for. waybill feature get says what On means of each.

What is listed is what the site says. Who decides by a feature goes by the signed
statements beside it.

` + exit.Table,
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
		Short: "Show all that is known of one feature",
		Long: `Show one feature: its state and what is desired, the tasks that are left with what
the last try of each said, the programs that use it with the value that each found,
the conditions (whether something still refers to it when it is Off, and whether the
next and the previous version can be started), and the last transitions with the
statement that was signed about each. Statements lie below statements/ of the site.

NAME is that of a feature of Waybill, or NAMESPACE/Name.

` + exit.Table,
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
