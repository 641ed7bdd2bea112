package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/govern/feature/config"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func featureCommand() *cobra.Command {
	cmd := group(*newCommand("feature", nil, nil))
	cmd.AddCommand(featureListCommand(), featureGetCommand(), featureSetCommand(), featureReconcileCommand(), featurePreflightCommand())
	return cmd
}

// maxFeaturesFile bounds FEATURES.yaml.
const maxFeaturesFile = 1 << 20

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
	cmd.Flags().StringVar(&o.place, "features", "", "site of the features: the directory, bucket or kubernetes://NAMESPACE that waybill feature reconcile writes to")
}

// addConfigFlag adds --config, which names the site by the file of its reconciler.
func (o *siteFlags) addConfigFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.file, "config", "", "FEATURES.yaml that names the site, instead of --features")
}

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
	cli.AddFormat(cmd, &w.Format, "table or json", "table", "json")
}

func featureListCommand() *cobra.Command {
	at, out := &siteFlags{}, &config.Writer{Known: known.Registry()}
	cmd := newCommand("feature_list", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		site, err := at.open()
		if err != nil {
			return err
		}
		all, err := site.Features.List(cmd.Context())
		if err != nil {
			return err
		}
		return out.List(cmd.OutOrStdout(), all)
	})
	at.addFlags(cmd)
	at.addConfigFlag(cmd)
	addFeatureOutput(cmd, out)
	return cmd
}

func featureGetCommand() *cobra.Command {
	at, out := &siteFlags{}, &config.Writer{Known: known.Registry()}
	cmd := newCommand("feature_get", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		k, err := config.ParseName(args[0])
		if err != nil {
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
	})
	at.addFlags(cmd)
	at.addConfigFlag(cmd)
	addFeatureOutput(cmd, out)
	return cmd
}
