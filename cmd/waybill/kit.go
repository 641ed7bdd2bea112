package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/cmd/internal/ui"
	kits "github.com/waybill-release/waybill/pkg/backend/kit"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/pipeline/kit"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func kitCommand() *cobra.Command {
	cmd := group(cobra.Command{Use: "kit", Short: "Carry a release into a network without internet, as one file", GroupID: "release", Long: help("kit") + exit.Table("success")})
	act := func(use, short, done, example string, decide func(ctx context.Context, g gate.Gate, r gate.Request, path string) (gate.Decided, error)) *cobra.Command {
		o := &cli.VerifyRelease{Rules: rules(), OpenPlace: cloud.OpenPlace, Inside: sbom.Look{Layers: &sbom.Layers{}}, Kit: cli.Kit{Command: use}}
		c := &cobra.Command{Use: use + " VERSION KIT", Short: short, Long: help("kit") + exit.Table(done), Example: "  waybill kit " + use + " v0.1.0 lantern-v0.1.0.kit " + example, Args: cobra.ExactArgs(2)}
		c.RunE = func(c *cobra.Command, args []string) error {
			if use != "export" {
				o.Kit.File = args[1]
			}
			o.Decide = func(ctx context.Context, g gate.Gate, r gate.Request) (gate.Decided, error) {
				return decide(ctx, g, r, args[1])
			}
			return o.Run(c, args[:1], profile.Release)
		}
		o.AddFlags(c)
		cmd.AddCommand(c)
		return c
	}
	var form kit.Form
	export := act("export", "Verify a release, and write it into a kit", "the release was accepted, and the kit was written", "--profile profile.yaml", func(ctx context.Context, g gate.Gate, r gate.Request, path string) (gate.Decided, error) {
		decided, err := kit.Export(ctx, g, r, path, form)
		if _, pin, failed := g.Profile().Carried(); err == nil && failed == nil && !pin.IsZero() && decided.Verdict.Err() == nil {
			decided.Verdict.Tell("To judge by the policy and trust root in the kit: --pin %s.", pin)
		}
		return decided, err
	})
	export.Flags().BoolVar(&form.Compressed, "zstd", false, "compress the kit; every program that reads kits reads it")
	export.Flags().BoolVar(&form.EvidenceOnly, "evidence-only", false, "leave out the images, and the files that are built: to verify files that are there already, with --kit KIT FILE...")
	act("verify", "Verify the release in a kit, without a network", exit.Accepted, "--pin sha256:…", func(ctx context.Context, g gate.Gate, r gate.Request, _ string) (gate.Decided, error) {
		return g.Decide(ctx, r)
	})
	var files, images string
	var into *cobra.Command
	into = act("import", "Verify the release in a kit, and copy it to a place and a registry", "the release was accepted, and copied", "--pin sha256:… --to ./mirror --to-images registry.example.test/lantern", func(ctx context.Context, g gate.Gate, r gate.Request, _ string) (gate.Decided, error) {
		if files == "" {
			return gate.Decided{}, verdict.Refuse(verdict.Usage, "--to", "required: the directory or bucket to copy the files to")
		}
		to, err := destination(files, images, into.Flags().Changed("offline"))
		if err != nil {
			return gate.Decided{}, err
		}
		return kit.Import(ctx, g, r, to)
	})
	into.Flags().StringVar(&files, "to", "", "directory or bucket to copy the files to")
	into.Flags().StringVar(&images, "to-images", "", "registry to copy the images to")
	packed := false
	delta := &cobra.Command{Use: "delta OLD NEW DELTA", Short: "Write only what a kit has that an older one lacks", Long: help("kit") + exit.Table("the delta was written"), Example: "  waybill kit delta lantern-v0.1.0.kit lantern-v0.1.1.kit change.kit", Args: cobra.ExactArgs(3), RunE: func(c *cobra.Command, args []string) error {
		has, of, err := kits.WriteDelta(c.Context(), args[0], args[1], args[2], packed)
		if err != nil {
			return err
		}
		info, err := os.Stat(args[2])
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s: %d of %s, %s; to be read beside %s\n", args[2], has, plural.Of(of, "file"), ui.Bytes(info.Size()), filepath.Base(args[0]))
		return err
	}}
	delta.Flags().BoolVar(&packed, "zstd", false, "compress the delta")
	cmd.AddCommand(delta)
	return cmd
}

// destination opens the places of an import, which may need a network.
func destination(files, images string, offline bool) (to promote.To, err error) {
	rt := cli.Transport(offline)
	if to.Files, err = cloud.OpenPlace(files, rt); err == nil {
		to.Writer, err = openWriter(files, rt)
	}
	if err == nil && images != "" {
		to.Images, err = registry.OpenRemote(images, rt)
	}
	return to, err
}
